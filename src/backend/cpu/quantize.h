// Activations → bytes, for dot products with quantised weights.
//
// Each block of 32 numbers of a row becomes int8 q with x ≈ scale × q, scale = max|x| / 127. The
// sums let kernels use unsigned weights: Σ (w - offset)·x = Σ w·x - offset·Σ x.
//
// All levels give the same bytes and scales. A NaN or infinity in a block makes its scale NaN or
// infinite, so that it shows in every output of the row instead of passing for a number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/cpu_features.h"

namespace pie::cpu {

inline constexpr uint32_t kQuantBlock = 32;

// Quantised rows, in buffers that are kept from one use to the next. Owner: the caller; written by
// Resize and QuantizeRow (different rows from different threads), then only read.
struct QuantizedRows {
  uint32_t rows = 0;
  uint32_t columns = 0;          // multiple of kQuantBlock
  std::vector<int8_t> values;    // [rows, columns]
  std::vector<float> scales;     // [rows, columns / 32]
  std::vector<int32_t> sums;     // [rows, columns / 32]: Σ q
  std::vector<float> real_sums;  // [rows, columns / 32]: scale × Σ q

  uint32_t blocks() const { return columns / kQuantBlock; }  // a row
  void Resize(uint32_t new_rows, uint32_t new_columns);
};

// x [columns] → row `row` of `out`. About one load a cycle: bound by reading x.
void QuantizeRow(CpuLevel level, const float* x, QuantizedRows& out, uint32_t row);

// x [rows, columns], rows `stride` apart → all of `out`, on the calling thread.
void QuantizeRows(CpuLevel level, const float* x, size_t stride, uint32_t rows, uint32_t columns,
                  QuantizedRows& out);

}  // namespace pie::cpu
