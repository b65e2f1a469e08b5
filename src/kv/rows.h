// Rows: what a sequence was fed, one row a token: the token, its position and, rarely, what it may
// attend to. From rows alone the KV can be computed again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/brle.h"

namespace pie {

using AttentionMask = std::vector<uint32_t>;  // run lengths (base/brle.h)

// Rows that live elsewhere.
struct RowsView {
  std::span<const uint32_t> tokens;
  std::span<const uint32_t> positions;   // one a token
  std::span<const AttentionMask> masks;  // empty = all causal; else one a token

  uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
  RowsView Sub(size_t first, size_t count) const;
};

struct Rows {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> positions;
  std::vector<AttentionMask> masks;  // as in RowsView

  uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
  RowsView view() const { return {tokens, positions, masks}; }
  // `first_slot` is the place of the first of `rows` in the sequence: masks are kept clipped to
  // what a row can see, so that equal rows are equal, and a mask that hides nothing is none.
  void Append(const RowsView& rows, uint32_t first_slot);
  void Truncate(uint32_t count);
  void RemoveFront(uint32_t count);

  friend bool operator==(const Rows&, const Rows&) = default;
};

// How many rows `a` and `b` begin with in common. Masked ones are not looked at: 0.
uint32_t EqualRows(const RowsView& a, const RowsView& b);

// Equal as Rows are that came from Append.
bool operator==(const Rows& a, const RowsView& b);

}  // namespace pie
