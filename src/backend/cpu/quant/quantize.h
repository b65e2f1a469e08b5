// Activations → bytes, for dot products with quantised weights.
//
// The few largest numbers of a row stay floats: hidden states have channels tens of times as large
// as the rest, and one of them would take all precision from its block (see decision 0017). Each
// block of 32 of what is left becomes int8 q with x ≈ scale × q, scale = max|x| / 127. The sums let
// kernels use unsigned weights: Σ (w - offset)·x = Σ w·x - offset·Σ x.
//
// All levels give the same bytes, scales and outliers. A NaN or infinity is an outlier, or makes
// its block's scale NaN or infinite, so that it shows in every output of the row instead of passing
// for a number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/machine/aligned.h"
#include "backend/cpu/machine/cpu_features.h"

namespace pie::cpu {

inline constexpr uint32_t kQuantBlock = 32;
inline constexpr uint32_t kMaxOutliers = 8;

// One of a row's largest numbers; its byte is 0.
struct Outlier {
  uint32_t column;
  float value;
};

// Quantised rows, in buffers that are kept from one use to the next. Owner: the caller; written by
// Resize and QuantizeRow (different rows from different threads; sixteen rows share no cache line
// with the next sixteen), then only read until the next Resize: kernels remember what they found in
// the rows of an id.
struct QuantizedRows {
  uint32_t rows = 0;
  uint32_t columns = 0;               // multiple of kQuantBlock
  uint64_t id = 0;                    // another one after every Resize
  AlignedVector<int8_t> values;       // [rows, columns]
  AlignedVector<float> scales;        // [rows, columns / 32]
  AlignedVector<int32_t> sums;        // [rows, columns / 32]: Σ q
  AlignedVector<int32_t> first_sums;  // [rows, columns / 32]: of the first 16
  // scale × Σ q once more, as whole multiples of a unit that each row has: what minima meet.
  AlignedVector<int16_t> whole_sums;  // [rows, whole_stride()]; what is behind the last is zero
  AlignedVector<float> sum_units;     // [rows]
  AlignedVector<Outlier> outliers;    // [rows, outliers_a_row()], largest first

  uint32_t blocks() const { return columns / kQuantBlock; }  // a row
  uint32_t whole_stride() const { return (blocks() + 15) / 16 * 16; }
  // Half as many as blocks: enough for what hidden states have, and cheap in short rows too.
  uint32_t outliers_a_row() const { return std::min(blocks() / 2, kMaxOutliers); }
  void Resize(uint32_t new_rows, uint32_t new_columns);
};

// x [columns] → row `row` of `out`. x is written to meanwhile, and left as it was.
void QuantizeRow(CpuLevel level, float* x, QuantizedRows& out, uint32_t row);

// x [rows, columns], rows `stride` apart → all of `out`, on the calling thread.
void QuantizeRows(CpuLevel level, float* x, size_t stride, uint32_t rows, uint32_t columns,
                  QuantizedRows& out);

}  // namespace pie::cpu
