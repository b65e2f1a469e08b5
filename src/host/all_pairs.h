// For tests: a table of settings in which every pair of values of two axes occurs.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <tuple>
#include <vector>

namespace pie::host {

// A value of each axis.
using PairsRow = std::vector<size_t>;

// Two values of different axes; the first axis is the smaller one.
struct AxisPair {
  size_t axis, value, other_axis, other_value;
  friend auto operator<=>(const AxisPair&, const AxisPair&) = default;
};

// Axis i has the values 0 to sizes[i] - 1. Pairs that are not `allowed` occur in no row; all other
// pairs occur in at least one. The result is deterministic: each row begins with the first pair
// that is missing, and every other axis takes the value that adds the most missing pairs.
inline std::vector<PairsRow> AllPairs(const std::vector<size_t>& sizes,
                                      const std::function<bool(const AxisPair&)>& allowed) {
  std::set<AxisPair> missing;
  for (size_t a = 0; a < sizes.size(); ++a) {
    for (size_t b = a + 1; b < sizes.size(); ++b) {
      for (size_t v = 0; v < sizes[a]; ++v) {
        for (size_t w = 0; w < sizes[b]; ++w) {
          if (allowed({a, v, b, w})) missing.insert({a, v, b, w});
        }
      }
    }
  }
  const auto pair_of = [](size_t a, size_t v, size_t b, size_t w) {
    return a < b ? AxisPair{a, v, b, w} : AxisPair{b, w, a, v};
  };
  std::vector<PairsRow> rows;
  while (!missing.empty()) {
    const AxisPair first = *missing.begin();
    std::vector<std::tuple<size_t, size_t>> chosen = {{first.axis, first.value},
                                                      {first.other_axis, first.other_value}};
    PairsRow row(sizes.size());
    row[first.axis] = first.value;
    row[first.other_axis] = first.other_value;
    for (size_t axis = 0; axis < sizes.size(); ++axis) {
      if (axis == first.axis || axis == first.other_axis) continue;
      size_t best = 0;
      int most = -1;
      for (size_t value = 0; value < sizes[axis]; ++value) {
        int added = 0;
        bool fits = true;
        for (const auto& [other, taken] : chosen) {
          const AxisPair pair = pair_of(axis, value, other, taken);
          fits &= allowed(pair);
          added += static_cast<int>(missing.contains(pair));
        }
        if (fits && added > most) {
          most = added;
          best = value;
        }
      }
      row[axis] = best;
      chosen.emplace_back(axis, best);
    }
    for (size_t a = 0; a < sizes.size(); ++a) {
      for (size_t b = a + 1; b < sizes.size(); ++b) missing.erase({a, row[a], b, row[b]});
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace pie::host
