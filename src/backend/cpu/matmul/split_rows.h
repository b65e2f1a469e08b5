// Activations as sums of two bfloat16s, for AMX tiles.
//
// A tile multiplies 16 times as many bfloat16s per cycle as vector instructions multiply floats. A
// single bfloat16 would lose 16 of a float's 24 bits; two leave a relative error of 2^-17, far
// below the rounding of the weights, and are still several times as fast as floats.
//
// Rows are stored one after the other, so that any sixteen of them form a tile. Owned by the
// caller. Resize and SplitRow write it (threads may write different rows at the same time);
// afterwards it is only read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/machine/aligned.h"

namespace pie::cpu {

// The size of a tile.
inline constexpr uint32_t kTileColumns = 32;
inline constexpr uint32_t kTileRows = 16;

struct SplitRows {
  uint32_t rows = 0;
  uint32_t columns = 0;            // multiple of kTileColumns
  AlignedVector<uint16_t> values;  // [rows padded to a tile][stride()]: high parts, then low parts

  // An odd number of cache lines, so that the rows of a tile do not compete for the same cache
  // sets.
  size_t stride() const { return size_t{columns} * 2 + 32; }
  const uint16_t* High(uint32_t row) const { return values.data() + row * stride(); }
  const uint16_t* Low(uint32_t row) const { return High(row) + columns; }
  void Resize(uint32_t new_rows, uint32_t new_columns);
};

// Splits x [columns] into row `row` of `out`. Needs products of bfloat16 (kAvx512Bf16 or higher).
// An infinity becomes NaN.
void SplitRow(const float* x, SplitRows& out, uint32_t row);

}  // namespace pie::cpu
