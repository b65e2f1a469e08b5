// Pace: measures for metrics how fast a process gets its tokens. The step thread reports every pass
// that chose tokens to the process's Pace. A pass keeps the Pace alive after the process has ended.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/histogram.h"

namespace pie::host {

struct PaceMetrics {
  Histogram first_token;  // the time from a process's launch to its first token
  Histogram next_token;   // the time from one token to the next
  Histogram wake_up;      // the time from a pass's end until its guest runs
  std::atomic<int64_t> last_wake_up_ns = 0;
};

class Pace {
 public:
  explicit Pace(std::shared_ptr<PaceMetrics> metrics)
      : metrics_(std::move(metrics)), last_ns_(SteadyClock::Get().NowNs()) {}

  void OnTokens(int64_t now) {
    const int64_t before = last_ns_.exchange(now, std::memory_order_relaxed);
    const bool first = tokens_.fetch_add(1, std::memory_order_relaxed) == 0;
    (first ? metrics_->first_token : metrics_->next_token).Add(now - before);
  }
  // Called when the guest asks for the output of a pass.
  void OnWakeUp(int64_t ended_ns) {
    const int64_t took = SteadyClock::Get().NowNs() - ended_ns;
    metrics_->wake_up.Add(took);
    metrics_->last_wake_up_ns.store(took, std::memory_order_relaxed);
  }

  // The number of calls of OnTokens.
  uint64_t tokens() const { return tokens_.load(std::memory_order_relaxed); }

 private:
  const std::shared_ptr<PaceMetrics> metrics_;
  std::atomic<int64_t> last_ns_;
  std::atomic<uint64_t> tokens_ = 0;
};

}  // namespace pie::host
