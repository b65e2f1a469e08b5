// Products of the same rows with several matrices in one parallel loop: queries, keys and values,
// or gate and up, cost one dispatch to the threads instead of three or two.
//
// Gate and up are combined a few columns at a time, in buffers that stay in the cache. The whole
// outputs would be several megabytes in a long prefill.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "backend/cpu/machine/aligned.h"
#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/machine/thread_pool.h"
#include "backend/cpu/matmul/matmul.h"
#include "backend/cpu/matmul/repack.h"
#include "backend/cpu/matmul/split_rows.h"
#include "backend/cpu/quant/quantize.h"
#include "backend/cpu/weights/weights.h"
#include "model/config.h"

namespace pie::cpu {

// The input rows of matrix products: floats, and additionally bytes if one of the matrices needs
// them, or split rows if AMX tiles are used. It keeps its buffers. Owned by the caller; threads may
// write different rows at the same time.
class Activations {
 public:
  void Resize(CpuLevel level, uint32_t rows, uint32_t columns, bool quantized);
  float* Row(uint32_t row) { return values_.data() + size_t{row} * columns_; }  // [columns]
  const float* Row(uint32_t row) const { return values_.data() + size_t{row} * columns_; }
  // Call after a row was written: makes its other forms.
  void Seal(uint32_t row) {
    if (quantized_) QuantizeRow(level_, Row(row), bytes_, row);
    if (split_) SplitRow(Row(row), pieces_, row);
  }

  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }
  FloatRows floats() const { return {values_.data(), columns_, rows_, columns_}; }
  const QuantizedRows& bytes() const { return bytes_; }
  bool split() const { return split_; }
  const SplitRows& pieces() const { return pieces_; }

 private:
  CpuLevel level_ = CpuLevel::kScalar;
  uint32_t rows_ = 0;
  uint32_t columns_ = 0;
  bool quantized_ = false;
  bool split_ = false;
  AlignedVector<float> values_;  // [rows, columns]
  QuantizedRows bytes_;
  SplitRows pieces_;
};

struct Product {
  const PackedMatrix& w;
  float* y;  // [rows of x, rows of w], y_stride apart
  size_t y_stride;
};

// Computes one part on the calling thread.
void MatMulPart(CpuLevel level, const PackedMatrix& w, const Activations& x,
                const MatMulRange& range, const PartOutput& to);

// Computes y = x · wᵀ for each product. All rows of x must be sealed, as bytes too if any w is
// quantised.
void MatMulAll(CpuLevel level, ThreadPool& pool, const Activations& x,
               std::initializer_list<Product> products);

// Panels of a matrix, [begin, end).
struct PanelRange {
  uint32_t begin, end;
};
// Computes only these panels of a product. The rest of y stays as it is.
void MatMulPanels(CpuLevel level, ThreadPool& pool, const Activations& x, const Product& product,
                  std::span<const PanelRange> panels);

// Rows [first_row, first_row + rows) and columns [first_column, first_column + columns) of gate · x
// and up · x, before the activation. The first column is a multiple of 16.
struct GatedPart {
  uint32_t first_row, rows;
  uint32_t first_column, columns;
  float* gates;  // [rows, columns], `stride` apart
  float* ups;
  size_t stride;
};

// Something to be added to gate · x and up · x. Threads call it for different parts.
class GatedAddend {
 public:
  virtual void AddColumns(const GatedPart& part) const = 0;

 protected:
  ~GatedAddend() = default;
};

// Computes out = activation(gate · x, up · x) with biases and, if it is not null, the addend. `out`
// must have its size; its rows are not sealed afterwards.
void MatMulGated(CpuLevel level, ThreadPool& pool, const Activations& x,
                 const FeedForwardWeights& ffn, Activation activation, Activations& out,
                 const GatedAddend* addend = nullptr);

}  // namespace pie::cpu
