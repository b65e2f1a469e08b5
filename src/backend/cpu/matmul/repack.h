// PackedMatrix: weights in the order in which the kernels read them (panel_format.h). The last
// panel is padded with zeros.
//
// Weights stay quantised: for each type of model files there is a format that holds the same
// integers. Scales are stored as F16: exactly if the file has them as F16, otherwise rounded (the K
// types multiply two of them, which loses 2^-11 of a scale). Minima are rounded to about a
// thousandth of the row's largest (panel_format.h). Types without a matching format are unpacked to
// F16.
//
// A PackedMatrix is an immutable view that any thread may read; the arena owns the memory and must
// outlive it. Packing costs one pass over the weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/cpu/machine/arena.h"
#include "backend/cpu/quant/panel_format.h"
#include "base/result.h"
#include "model/dtype.h"

namespace pie::cpu {

class PackedMatrix {
 public:
  PackedMatrix() = default;  // no rows
  // Packs `data`, [rows, columns] as in a model file. Fails if the size does not match the shape,
  // if the type is not supported, or if memory runs out.
  static Result<PackedMatrix> Pack(DType dtype, std::span<const std::byte> data, uint32_t rows,
                                   uint32_t columns, Arena& arena);

  PanelFormat format() const { return format_; }
  uint32_t rows() const { return rows_; }
  uint32_t columns() const { return columns_; }
  uint32_t panels() const { return (rows_ + kPanelRows - 1) / kPanelRows; }
  size_t panel_bytes() const { return panel_bytes_; }  // multiple of 64
  size_t bytes() const { return panel_bytes_ * panels(); }
  const std::byte* Panel(uint32_t panel) const { return memory_ + panel * panel_bytes_; }
  // True if MatMulPart takes quantised rows for this matrix, false if it takes floats.
  bool quantized() const { return LayoutOf(format_).quantized; }

  // Unpacks one row to floats: an embedding, if the matrix is also the output layer. Takes a few ns
  // per number.
  void UnpackRow(uint32_t row, std::span<float> out) const;
  // Unpacks one number.
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

// Returns the integer that a quantised block stores for a lane and column, or its step. The offset
// is not subtracted.
int QuantAt(const PanelLayout& layout, const std::byte* block, uint32_t lane, uint32_t column);
// Return the unit of a lane's minima and the multiple of it for a block, where layout.whole_min().
float UnitAt(const PanelLayout& layout, const std::byte* panel, uint32_t blocks, uint32_t lane);
int MultipleAt(const PanelLayout& layout, const std::byte* panel, uint32_t blocks, uint32_t block,
               uint32_t lane);

}  // namespace pie::cpu
