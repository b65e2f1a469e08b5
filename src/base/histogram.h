// Histogram: counts durations in buckets whose upper bounds double. Thread-safe; Add costs two
// atomic operations.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace pie {

class Histogram {
 public:
  // Upper bounds in seconds: 0.1 ms, 0.2 ms, … 52 s. One more bucket takes all longer durations.
  static constexpr size_t kBounds = 20;
  static constexpr double Bound(size_t i) { return 1e-4 * static_cast<double>(1ull << i); }

  void Add(int64_t ns) {
    const double seconds = static_cast<double>(ns) * 1e-9;
    size_t bucket = 0;
    while (bucket < kBounds && seconds > Bound(bucket)) ++bucket;
    counts_[bucket].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(static_cast<uint64_t>(ns), std::memory_order_relaxed);
  }
  // The count of one bucket alone, not cumulative. Bucket `kBounds` holds the durations above every
  // bound.
  uint64_t count(size_t bucket) const { return counts_[bucket].load(std::memory_order_relaxed); }
  double sum_seconds() const {
    return static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-9;
  }

 private:
  std::array<std::atomic<uint64_t>, kBounds + 1> counts_ = {};
  std::atomic<uint64_t> sum_ns_ = 0;
};

}  // namespace pie
