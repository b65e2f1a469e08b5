// Meanwhile: what a step thread does while it waits for guests that it has woken. It can as well
// run them: no other thread has to be woken for it, and nobody else wants this one.
//
// All of it is called on the step thread.
#pragma once

namespace pie {

class Meanwhile {
 public:
  virtual ~Meanwhile() = default;
  virtual void Begin() = 0;     // before all else: from now on those who are woken are kept for it
  virtual void End() = 0;       // after all else
  virtual bool RunOne() = 0;    // false: nobody is there to run
  virtual void HandOver() = 0;  // the device can start: others run who is left
};

}  // namespace pie
