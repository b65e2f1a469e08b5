// Bit masks as run lengths: runs of false and true in turn, beginning with false (which may be 0).
// Bits past the last run are false. Masks come from guests, so every function takes any list of
// numbers: runs are clipped to `limit`, and sums are 64 bits wide because they may pass 2^32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace pie {

using BrleView = std::span<const uint32_t>;

// Calls visit(begin, end) for each true run below `limit`, in order; 0 < end - begin. If `visit`
// returns a bool, false stops the walk.
template <class Visit>
void ForEachTrueRun(BrleView runs, uint32_t limit, Visit&& visit) {
  uint64_t begin = 0;
  for (size_t i = 0; i < runs.size() && begin < limit; ++i) {
    const uint64_t end = std::min<uint64_t>(begin + runs[i], limit);
    if (i % 2 == 1 && begin < end) {
      const auto from = static_cast<uint32_t>(begin);
      const auto to = static_cast<uint32_t>(end);
      if constexpr (std::is_same_v<decltype(visit(from, to)), bool>) {
        if (!visit(from, to)) return;
      } else {
        visit(from, to);
      }
    }
    begin = end;
  }
}

// Bits that the runs describe, true and false.
inline uint64_t BrleLength(BrleView runs) {
  uint64_t length = 0;
  for (uint32_t run : runs) length += run;
  return length;
}

// The lowest true bit below `limit`.
inline std::optional<uint32_t> BrleFirst(BrleView runs, uint32_t limit) {
  std::optional<uint32_t> first;
  ForEachTrueRun(runs, limit, [&](uint32_t begin, uint32_t) {
    first = begin;
    return false;
  });
  return first;
}

inline uint32_t BrleCount(BrleView runs, uint32_t limit) {
  uint32_t count = 0;
  ForEachTrueRun(runs, limit, [&](uint32_t begin, uint32_t end) { count += end - begin; });
  return count;
}

inline bool BrleTest(BrleView runs, uint32_t bit) {
  uint64_t end = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    end += runs[i];
    if (bit < end) return i % 2 == 1;
  }
  return false;
}

// Builds a mask from true runs given in ascending order; runs that touch become one.
class BrleBuilder {
 public:
  void AddTrue(uint32_t begin, uint32_t end) {
    if (begin >= end) return;
    if (begin == end_ && !runs_.empty()) {
      runs_.back() += end - begin;
    } else {
      runs_.push_back(begin - end_);
      runs_.push_back(end - begin);
    }
    end_ = end;
  }
  std::vector<uint32_t> Take() && { return std::move(runs_); }

 private:
  std::vector<uint32_t> runs_;
  uint32_t end_ = 0;
};

// The bits that are true in both. Bits from 2^32 - 1 on are dropped: no token or position is there.
inline std::vector<uint32_t> BrleAnd(BrleView a, BrleView b) {
  BrleBuilder both;
  size_t i = 0;
  size_t j = 0;
  uint64_t a_end = a.empty() ? 0 : a[0];
  uint64_t b_end = b.empty() ? 0 : b[0];
  uint64_t begin = 0;
  while (i < a.size() && j < b.size() && begin < UINT32_MAX) {
    const uint64_t end = std::min({a_end, b_end, uint64_t{UINT32_MAX}});
    if (i % 2 == 1 && j % 2 == 1) {
      both.AddTrue(static_cast<uint32_t>(begin), static_cast<uint32_t>(end));
    }
    begin = end;
    if (a_end == end && ++i < a.size()) a_end += a[i];
    if (b_end == end && ++j < b.size()) b_end += b[j];
  }
  return std::move(both).Take();
}

}  // namespace pie
