// Rows: what a sequence was fed. A row is a token, its position and, rarely, a mask of the tokens
// it may attend to. The KV can be computed again from the rows alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/brle.h"

namespace pie {

// Rows that live elsewhere.
struct RowsView {
  std::span<const uint32_t> tokens;
  std::span<const uint32_t> positions;  // one a token
  std::span<const Brle> masks;          // empty = all causal; else one a token

  uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
  RowsView Sub(size_t first, size_t count) const;
};

struct Rows {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> positions;
  std::vector<Brle> masks;  // as in RowsView

  uint32_t size() const { return static_cast<uint32_t>(tokens.size()); }
  RowsView view() const { return {tokens, positions, masks}; }
  // `first_slot` is the place of the first of `rows` in the sequence. Masks are kept clipped to
  // what a row can see, so that equal rows compare equal; a mask that hides nothing is not kept.
  void Append(const RowsView& rows, uint32_t first_slot);
  void Truncate(uint32_t count);
  void RemoveFront(uint32_t count);

  friend bool operator==(const Rows&, const Rows&) = default;
};

// How many rows `a` and `b` have in common at their beginning. 0 if either has masks.
uint32_t EqualRows(const RowsView& a, const RowsView& b);

// Is `a` equal to the Rows that appending `b` would give?
bool operator==(const Rows& a, const RowsView& b);

}  // namespace pie
