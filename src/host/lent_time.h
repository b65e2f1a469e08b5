// LentTime: how long the grammars of one user may hold up the step thread and the devices, on which
// all users wait. Any thread may use it.
//
// Work that takes no longer than kFreeNs is free. Of all other time a user may spend kMostNs at
// once, and 1 / kRefill of the time that passes. Once the time is spent, other threads do the work
// of the user's grammars, and only the user's own passes wait for it (MatcherRules).
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/clock.h"

namespace pie::host {

class LentTime {
 public:
  static constexpr int64_t kFreeNs = 100'000;
  static constexpr int64_t kMostNs = 10'000'000;
  static constexpr int64_t kRefill = 100;

  explicit LentTime(const Clock& clock = SteadyClock::Get()) : clock_(clock) {}

  void Spend(int64_t ns) {
    if (ns <= kFreeNs) return;
    const int64_t now_ns = clock_.NowNs();
    const int64_t delay_ns = (std::min(ns, kLongestNs) - kFreeNs) * kRefill;
    int64_t full_ns = full_ns_.load(std::memory_order_relaxed);
    while (!full_ns_.compare_exchange_weak(full_ns, std::max(full_ns, now_ns) + delay_ns,
                                           std::memory_order_relaxed)) {
    }
  }
  bool is_spent() const {
    const int64_t full_ns = full_ns_.load(std::memory_order_relaxed);
    // Without a debt, which is nearly always so, not even the clock is read.
    return full_ns != 0 && full_ns - clock_.NowNs() > kMostNs * kRefill;
  }
  // Whether nothing is missing.
  bool is_full() const { return full_ns_.load(std::memory_order_relaxed) <= clock_.NowNs(); }

 private:
  static constexpr int64_t kLongestNs = 1'000'000'000;

  const Clock& clock_;
  std::atomic<int64_t> full_ns_ = 0;  // when all of it will be there again; 0: nothing was spent
};

// Spends the processor time that the calling thread uses while this object lives. The clock on the
// wall would also count the time in which the operating system runs something else.
class LentTimeMeter {
 public:
  explicit LentTimeMeter(LentTime* lent) : lent_(lent), begin_ns_(lent == nullptr ? 0 : NowNs()) {}
  ~LentTimeMeter() {
    if (lent_ != nullptr) lent_->Spend(NowNs() - begin_ns_);
  }
  LentTimeMeter(const LentTimeMeter&) = delete;
  LentTimeMeter& operator=(const LentTimeMeter&) = delete;

 private:
  static int64_t NowNs() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  }

  LentTime* const lent_;  // null: the time is not measured
  const int64_t begin_ns_;
};

// The LentTime of each user. A user whose inferlets have all ended still owes what they have spent.
class LentTimes {
 public:
  std::shared_ptr<LentTime> Of(uint64_t user) {
    const std::lock_guard lock(mutex_);
    if (all_.size() >= kMost) {
      std::erase_if(all_, [](const auto& entry) {
        return entry.second.use_count() == 1 && entry.second->is_full();
      });
    }
    std::shared_ptr<LentTime>& lent = all_[user];
    if (!lent) lent = std::make_shared<LentTime>();
    return lent;
  }

 private:
  static constexpr size_t kMost = 4'096;  // then those that owe nothing are forgotten

  std::mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<LentTime>> all_;  // by the user's number
};

}  // namespace pie::host
