// WeightReader: reads tensors of a model's files (model/checked_tensors.h) and packs them.
//
// Packed parts of the file are released from memory at once, so loading needs little more memory
// than the packed weights. `arena` must outlive it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backend/cpu/machine/arena.h"
#include "backend/cpu/matmul/repack.h"
#include "base/result.h"
#include "model/checked_tensors.h"

namespace pie::cpu {

using LoadProgress = CheckedTensors::Progress;
using Shape = CheckedTensors::Shape;

class WeightReader : public CheckedTensors {
 public:
  WeightReader(const ModelFiles& files, Arena& arena, const LoadProgress& progress);

  // Packs rows [first, first + rows) of a tensor, whose rows are as long as its last dimension.
  Result<PackedMatrix> Rows(const Tensor& tensor, uint64_t first, uint64_t rows);
  // Packs a whole tensor, [rows, columns].
  Result<PackedMatrix> Matrix(std::string_view name, uint64_t rows, uint64_t columns);
  // Packs rows of `dtype` that the caller has rearranged; errors name `tensor`.
  Result<PackedMatrix> Pack(const Tensor& tensor, DType dtype, std::span<const std::byte> data,
                            uint64_t rows, uint64_t columns);

 private:
  Arena& arena_;
};

}  // namespace pie::cpu
