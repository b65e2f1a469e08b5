// Prefault: makes memory resident before it is written.
//
// Mapped memory becomes resident on the first write, and the writer waits until the system has
// found and cleared it: a fraction of a millisecond for a huge page, and several milliseconds in a
// virtual machine that has not used it before. A step of the device should not wait for that.
//
// A background thread prefaults one huge page at a time; concurrent writes are kept. The thread
// ends when all memory is resident, when the system refuses (then writers wait as usual), or when
// the object is destroyed. The owner of the object also owns the memory.
#pragma once

#include <cstddef>
#include <span>
#include <thread>

namespace pie::cpu {

class Prefault {
 public:
  // Does nothing.
  Prefault() = default;
  // Starts to prefault the first `most` bytes of `memory`, which is aligned to a page.
  Prefault(std::span<std::byte> memory, size_t most);

  // Waits until the thread has ended.
  void Wait();

 private:
  std::jthread thread_;
};

}  // namespace pie::cpu
