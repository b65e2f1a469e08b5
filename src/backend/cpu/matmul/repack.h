// PackedMatrix: weights in the order in which the kernels read them (panel_format.h). The last
// panel is filled up with zeros.
//
// Weights stay quantised: each type of model files has a format that holds the same integers, with
// scales in F16, exactly where the file has them so, else rounded (K types multiply two of them: a
// loss of 2^-11 of a scale). Minima are rounded to some thousandth (panel_format.h) of the row's
// largest. Types that no format fits are unpacked into F16. A PackedMatrix is a view: the arena
// owns the memory and outlives it. Immutable, so any thread may read it. Packing costs one pass
// over the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/machine/arena.h"
#include "backend/cpu/matmul/panel_format.h"
#include "base/result.h"
#include "model/dtype.h"

namespace pie::cpu {

class PackedMatrix {
 public:
  PackedMatrix() = default;  // no rows
  // `data` is [rows, columns] as model files store it. Fails on a size that does not fit the shape,
  // on a type that cannot be computed with, and when memory runs out.
  static Result<PackedMatrix> Pack(DType dtype, std::span<const std::byte> data, uint32_t rows,
                                   uint32_t columns, Arena& arena);

  PanelFormat format() const { return format_; }
  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }
  uint32_t panels() const { return (rows_ + kPanelRows - 1) / kPanelRows; }
  size_t panel_bytes() const { return panel_bytes_; }  // multiple of 64
  size_t bytes() const { return panel_bytes_ * panels(); }
  const std::byte* Panel(uint32_t panel) const { return memory_ + panel * panel_bytes_; }
  // Whether MatMul takes quantised rows (else floats).
  bool quantized() const { return LayoutOf(format_).quantized; }

  // One row as floats: an embedding, when the same matrix is the output layer. A few ns a number.
  void UnpackRow(uint32_t row, std::span<float> out) const;
  // One number.
  float Weight(uint32_t row, uint32_t column) const;

 private:
  template <class PackBlock>
  void PackBlocks(const std::byte* data, size_t in_bytes, PackBlock pack);
  void PackPairs(const std::byte* data);
  void PackGroups(DType dtype, const std::byte* data);
  void PackMinima(uint32_t row, std::span<const float> minima);
  void UnpackBlock(uint32_t row, uint32_t index, float* out) const;

  PanelFormat format_ = PanelFormat::kF32;
  uint32_t rows_ = 0;
  uint32_t columns_ = 0;
  size_t panel_bytes_ = 0;
  std::byte* memory_ = nullptr;
};

// The integer that a quantised block holds for a lane and column, or its step; the offset not taken
// off.
int QuantAt(const PanelLayout& layout, const std::byte* block, uint32_t lane, uint32_t column);
// The unit of a lane's minima, and which multiple of it a block has; for layout.whole_min().
float UnitAt(const PanelLayout& layout, const std::byte* panel, uint32_t blocks, uint32_t lane);
int MultipleAt(const PanelLayout& layout, const std::byte* panel, uint32_t blocks, uint32_t block,
               uint32_t lane);

}  // namespace pie::cpu
