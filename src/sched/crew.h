// Crew: threads that help the step thread to run the guests that it has woken.
//
// A device that computes elsewhere leaves the processors idle while a batch runs, and is idle
// itself until all guests of that batch have asked for their next tokens. Waking a thread takes
// about as long as a guest runs. So the step thread says in advance when it is going to wake
// guests, and the threads look for them from a moment before. In between they sleep.
//
// Owner: the step thread, which alone calls it. A crew costs a system call for each thread that is
// expected to help, while the device runs, and some hundred microseconds of that thread a batch.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/meanwhile.h"

namespace pie {

class Crew {
 public:
  explicit Crew(size_t threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // How many threads can help on this machine; 0 if it has few processors.
  static size_t Size();
  // How many of `threads` threads help with this many guests. None with few guests, which the step
  // thread runs sooner by itself.
  static size_t Helpers(size_t threads, size_t guests);

  // Starts the threads. To be called before the rest.
  void Begin(std::shared_ptr<Meanwhile> meanwhile);
  // Will this many guests be helped? Without help, the other calls need not be made.
  bool Helps(size_t guests) const { return Helpers(seats_.size(), guests) > 0; }
  // The batch that runs takes `in` longer, if it takes as long as the last one, and then wakes
  // about this many guests.
  void Expect(size_t guests, std::chrono::nanoseconds in);
  // About this many guests are being woken. Wakes the threads that do not look for them yet.
  void Call(size_t guests);

 private:
  struct Seat;
  void Work(Seat& seat);
  void Look(std::chrono::steady_clock::time_point until);

  const size_t threads_;
  std::shared_ptr<Meanwhile> meanwhile_;
  std::vector<std::unique_ptr<Seat>> seats_;  // one for each thread, when they have begun
};

}  // namespace pie
