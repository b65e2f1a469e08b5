// Rows: what a sequence was fed. A row is a token, its position and, rarely, a mask of the tokens
// it may attend to, and an adapter. The KV can be computed again from the rows alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/brle.h"

namespace pie {

// The adapter, and in zeroth-order tuning the noise, under which the model computed a row. KV
// depends on it, so rows under different ones are different rows. It only names the adapter; a lane
// that may have to compute the row again keeps the weights (sched/lane.h).
struct RowAdapter {
  uint64_t version = 0;  // of the weights; unique among all adapters. 0: the model alone
  int64_t seed = 0;      // of the noise; 0: none
  float sigma = 0;       // of the noise
  friend bool operator==(const RowAdapter&, const RowAdapter&) = default;
};

// Rows that live elsewhere.
struct RowsView {
  std::span<const uint32_t> tokens;
  std::span<const uint32_t> positions;  // one per token
  std::span<const Brle> masks;          // empty = all causal; else one per token
  // empty = none; one = that of all rows; else one per token
  std::span<const RowAdapter> adapters = {};

  uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
  RowAdapter adapter(size_t row) const {
    return adapters.empty() ? RowAdapter() : adapters[adapters.size() == 1 ? 0 : row];
  }
  RowsView Sub(size_t first, size_t count) const;
};

struct Rows {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> positions;
  std::vector<Brle> masks;           // as in RowsView
  std::vector<RowAdapter> adapters;  // as in RowsView

  uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
  RowsView view() const { return {tokens, positions, masks, adapters}; }
  // `first_slot` is the place of the first of `rows` in the sequence. Masks are kept clipped to
  // what a row can see, so that equal rows compare equal; a mask that hides nothing is not kept.
  void Append(const RowsView& rows, uint32_t first_slot);
  void Truncate(uint32_t count);
  void RemoveFront(uint32_t count);

 private:
  void AppendAdapters(const RowsView& rows, uint32_t before);
};

// Memory that the masks of some rows take.
size_t MaskBytes(const Rows& rows);

// How many rows `a` and `b` have in common at their beginning. 0 if either has masks.
uint32_t EqualRows(const RowsView& a, const RowsView& b);

// Is `a` equal to the Rows that appending `b` would give?
bool operator==(const Rows& a, const RowsView& b);
inline bool operator==(const Rows& a, const Rows& b) {
  return a == b.view();
}

}  // namespace pie
