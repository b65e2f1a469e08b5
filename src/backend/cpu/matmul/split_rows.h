// Activations → sums of two bfloat16s, for the tiles of AMX.
//
// A tile multiplies bfloat16s, 16 times as many in a cycle as there are products of floats. One
// alone would take 16 of a float's 24 bits from every number; two leave an error of 2^-17 of it,
// far below what the weights themselves were rounded by, and tiles are still several times as fast.
//
// Rows are whole and lie one after the other, so that any sixteen of them are a tile. Owner: the
// caller; written by Resize and SplitRow (different rows from different threads), then only read.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/machine/aligned.h"

namespace pie::cpu {

// Columns, and rows too, come in multiples or parts of these.
inline constexpr uint32_t kTileColumns = 32;
inline constexpr uint32_t kTileRows = 16;

struct SplitRows {
  uint32_t rows = 0;
  uint32_t columns = 0;            // multiple of kTileColumns
  AlignedVector<uint16_t> values;  // [rows and the rest of a tile][stride()]: high parts, low parts

  // An odd number of cache lines, so that a tile's rows do not fight for the same places.
  size_t stride() const { return size_t{columns} * 2 + 32; }
  const uint16_t* High(uint32_t row) const { return values.data() + row * stride(); }
  const uint16_t* Low(uint32_t row) const { return High(row) + columns; }
  void Resize(uint32_t new_rows, uint32_t new_columns);
};

// x [columns] → row `row` of `out`. For processors with products of bfloat16 (kAvx512Bf16 up). An
// infinity becomes NaN.
void SplitRow(const float* x, SplitRows& out, uint32_t row);

}  // namespace pie::cpu
