// Clock: the time as a dependency, so that tests can control it. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace pie {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;  // monotonic; only differences mean something
};

class SteadyClock final : public Clock {
 public:
  int64_t NowNs() const override {
    return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  }
  static const SteadyClock& Get() {
    static const SteadyClock clock;
    return clock;
  }
};

// A clock for tests: it moves only when AdvanceNs is called.
class ManualClock final : public Clock {
 public:
  int64_t NowNs() const override { return now_ns_.load(std::memory_order_relaxed); }
  void AdvanceNs(int64_t ns) { now_ns_.fetch_add(ns, std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> now_ns_ = 0;
};

}  // namespace pie
