// PackedMatrix: weights in the order in which the kernels read them.
//
// Sixteen output rows lie side by side, a *panel*: one vector register holds four consecutive bytes
// of each of them, which is what a byte dot product takes. A panel is a sequence of blocks of 32
// columns, read from front to back, so that one pass over a matrix is one pass over its memory:
//   Q4_0, Q4_1  [4][16 rows][4 bytes]: byte j of group g has column 4g + j in its low half and
//               column 16 + 4g + j in its high half; then 16 scales and (Q4_1) 16 minima, F16
//   Q8_0        [8][16 rows][4 bytes], 128 added so that they are unsigned; then 16 scales, F16
//   F16, BF16, F32  [columns][16 rows], blocks of one column
// The last panel is filled up with zeros.
//
// Other types are unpacked into F16 (what they hold has fewer bits than that). A PackedMatrix is a
// view: the arena owns the memory and outlives it. Immutable, so any thread may read it. Packing
// costs one pass over the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/arena.h"
#include "base/result.h"
#include "model/dtype.h"

namespace pie::cpu {

inline constexpr uint32_t kPanelRows = 16;

class PackedMatrix {
 public:
  PackedMatrix() = default;  // no rows
  // `data` is [rows, columns] as model files store it. Fails on a size that does not fit the shape,
  // on a type that cannot be computed with, and when memory runs out.
  static Result<PackedMatrix> Pack(DType dtype, std::span<const std::byte> data, uint32_t rows,
                                   uint32_t columns, Arena& arena);

  DType dtype() const { return dtype_; }  // as packed
  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }
  uint32_t panels() const { return (rows_ + kPanelRows - 1) / kPanelRows; }
  size_t panel_bytes() const { return panel_bytes_; }  // multiple of 64
  size_t bytes() const { return panel_bytes_ * panels(); }
  const std::byte* Panel(uint32_t panel) const { return memory_ + panel * panel_bytes_; }
  // Whether MatMul takes quantised rows (else floats).
  bool quantized() const {
    return dtype_ == DType::kQ4_0 || dtype_ == DType::kQ4_1 || dtype_ == DType::kQ8_0;
  }

  // One row as floats: an embedding, when the same matrix is the output layer. A few ns a number.
  void UnpackRow(uint32_t row, std::span<float> out) const;
  // One number.
  float Weight(uint32_t row, uint32_t column) const;

 private:
  template <class PackBlock>
  void PackBlocks(const std::byte* data, PackBlock pack);
  void UnpackBlock(uint32_t row, uint32_t index, float* out) const;

  DType dtype_ = DType::kF32;
  uint32_t rows_ = 0;
  uint32_t columns_ = 0;
  size_t panel_bytes_ = 0;
  std::byte* memory_ = nullptr;
};

// Bytes of a block of a panel, and its columns.
struct PanelBlock {
  uint32_t bytes;
  uint32_t columns;
};
PanelBlock PanelBlockOf(DType packed);

}  // namespace pie::cpu
