// Quantisation of activations to bytes, for dot products with quantised weights.
//
// The few largest numbers of a row, its outliers, stay floats: hidden states have channels tens of
// times as large as the rest, and one of them would take all precision from its block (decision
// 0017). The other numbers of each block of 32 become int8 q with x ≈ scale × q, scale = max|x| /
// 127. The sums allow kernels to use unsigned weights: Σ (w - offset)·x = Σ w·x - offset·Σ x.
//
// All levels produce the same bytes, scales and outliers. A NaN or infinity becomes an outlier or
// makes its block's scale NaN or infinite, so that it reaches every output of the row.
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

// One of a row's largest numbers. Its byte is 0.
struct Outlier {
  uint32_t column;
  float value;
};

// Quantised rows, in buffers that are reused. Owned by the caller. Resize and QuantizeRow write it
// (threads may write different rows at the same time; sixteen rows share no cache line with the
// next sixteen); then it is only read until the next Resize, because kernels cache what they derive
// from an id's rows.
struct QuantizedRows {
  uint32_t rows = 0;
  uint32_t columns = 0;               // multiple of kQuantBlock
  uint64_t id = 0;                    // changes with every Resize
  AlignedVector<int8_t> values;       // [rows, columns]
  AlignedVector<float> scales;        // [rows, columns / 32]
  AlignedVector<int32_t> sums;        // [rows, columns / 32]: Σ q
  AlignedVector<int32_t> first_sums;  // [rows, columns / 32]: Σ q of the first 16
  // scale × Σ q as integer multiples of one unit per row, to be multiplied with integer minima.
  AlignedVector<int16_t> whole_sums;  // [rows, whole_stride()], padded with zeros
  AlignedVector<float> sum_units;     // [rows]
  AlignedVector<Outlier> outliers;    // [rows, outliers_per_row()], largest first

  uint32_t blocks() const { return columns / kQuantBlock; }  // per row
  uint32_t whole_stride() const { return (blocks() + 15) / 16 * 16; }
  // Half the number of blocks, at most kMaxOutliers: enough for hidden states, and cheap for short
  // rows.
  uint32_t outliers_per_row() const { return std::min(blocks() / 2, kMaxOutliers); }
  void Resize(uint32_t new_rows, uint32_t new_columns);
};

// Quantises x [columns] into row `row` of `out`. Modifies x temporarily and restores it.
void QuantizeRow(CpuLevel level, float* x, QuantizedRows& out, uint32_t row);

// Quantises x [rows, columns], rows `stride` apart, into `out` on the calling thread.
void QuantizeRows(CpuLevel level, float* x, size_t stride, uint32_t rows, uint32_t columns,
                  QuantizedRows& out);

}  // namespace pie::cpu
