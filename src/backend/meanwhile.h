// Meanwhile: lets the threads of a device run guests while it has no batch. They run the guests
// that the last batch woke, so that no other thread has to be woken for them.
#pragma once

namespace pie {

class Meanwhile {
 public:
  virtual ~Meanwhile() = default;

  // The step thread calls Begin before it wakes a guest, and End when it stops. In between, the
  // guests that it wakes are kept for RunOne.
  virtual void Begin() = 0;
  virtual void End() = 0;
  // Runs one of these guests, on any thread. False: there is none.
  virtual bool RunOne() = 0;
  // A batch can start: other threads run the guests that are left. Called by the step thread.
  virtual void HandOver() = 0;
  // The guest that the calling thread runs, if it runs one, may soon have to wait for a full queue
  // of commands. It goes on apart from other guests.
  virtual void Crowded() {}
};

}  // namespace pie
