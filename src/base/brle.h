// Bit masks as run lengths: runs of false and true bits alternate, and the first run is false (it
// may be 0 long). Bits past the last run are false. Masks come from guests, so every function
// accepts any list of numbers: runs are clipped to `limit`, and sums are 64 bits wide because they
// may exceed 2^32.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace pie {

using Brle = std::vector<uint32_t>;  // a mask: run lengths of false, true, false, …
using BrleView = std::span<const uint32_t>;

// Calls visit(begin, end) for each true run below `limit`, in order. No run is empty. If `visit`
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

// Returns the lowest true bit below `limit`.
inline std::optional<uint32_t> BrleFirst(BrleView runs, uint32_t limit) {
  std::optional<uint32_t> first;
  ForEachTrueRun(runs, limit, [&](uint32_t begin, uint32_t) {
    first = begin;
    return false;
  });
  return first;
}

inline bool BrleTest(BrleView runs, uint32_t bit) {
  uint64_t end = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    end += runs[i];
    if (bit < end) return i % 2 == 1;
  }
  return false;
}

// Builds a mask from true runs that are added in ascending order. Adjacent runs are merged.
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

// Returns the same mask in its shortest form, clipped to `limit`: no run but the first is empty, so
// there are at most limit + 1 runs. Code that visits the runs of a guest's mask many times uses
// this form. A mask that is not empty stays so, even if it allows nothing.
inline Brle BrleShortest(BrleView runs, uint32_t limit) {
  BrleBuilder shortest;
  ForEachTrueRun(runs, limit, [&](uint32_t begin, uint32_t end) { shortest.AddTrue(begin, end); });
  Brle taken = std::move(shortest).Take();
  if (taken.empty() && !runs.empty()) taken.push_back(limit);
  return taken;
}

}  // namespace pie
