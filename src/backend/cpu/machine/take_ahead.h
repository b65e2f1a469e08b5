// TakeAhead: has the system give memory before somebody writes to it.
//
// Memory that was mapped is not there before it is written, and then the writer waits until the
// system has found and cleared it: a fraction of a millisecond for a huge page, and several in a
// virtual machine that has not used it before. A step of the device should not wait for that.
//
// A thread of its own asks, a huge page at a time; what is written meanwhile stays as it is. It
// ends when all is there, when the system gives no more (then writers wait, as they would have), or
// with its owner, who owns the memory as well.
#pragma once

#include <cstddef>
#include <span>
#include <thread>

namespace pie::cpu {

class TakeAhead {
 public:
  // Nothing to do.
  TakeAhead() = default;
  // The first `most` bytes of `memory`, which begins at a page of the system.
  TakeAhead(std::span<std::byte> memory, size_t most);

  // Until it is done.
  void Wait();

 private:
  std::jthread thread_;
};

}  // namespace pie::cpu
