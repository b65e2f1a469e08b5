// StatsBoard: the step thread writes its figures there, and any thread reads them. Each figure is
// whole; two of them may be of different steps.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "sched/scheduler.h"

namespace pie {

class StatsBoard {
 public:
  void Write(const SchedulerStats& stats) {
    const auto words = std::bit_cast<Words>(stats);
    for (size_t i = 0; i < kWords; ++i) board_[i].store(words[i], std::memory_order_relaxed);
  }
  SchedulerStats Read() const {
    Words words;
    for (size_t i = 0; i < kWords; ++i) words[i] = board_[i].load(std::memory_order_relaxed);
    return std::bit_cast<SchedulerStats>(words);
  }

 private:
  // All figures have eight bytes.
  static constexpr size_t kWords = sizeof(SchedulerStats) / sizeof(uint64_t);
  using Words = std::array<uint64_t, kWords>;
  std::array<std::atomic<uint64_t>, kWords> board_{};
};

}  // namespace pie
