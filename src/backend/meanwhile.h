// Meanwhile: what the threads of a device do while it has no batch: they run the guests that the
// last one woke. So no other thread has to be woken for it, and nobody else wants these.
#pragma once

namespace pie {

class Meanwhile {
 public:
  virtual ~Meanwhile() = default;

  // The step thread, who wakes guests: before all else, from when on they are kept for it; and
  // after all else.
  virtual void Begin() = 0;
  virtual void End() = 0;
  // Any thread. False: nobody is there to run.
  virtual bool RunOne() = 0;
  // The step thread: a batch can start, and others run who is left.
  virtual void HandOver() = 0;
};

}  // namespace pie
