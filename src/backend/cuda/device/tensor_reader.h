// TensorReader: reads tensors of a model's files (model/checked_tensors.h) into matrices for the
// device.
#pragma once

#include <cstdint>
#include <string_view>

#include "backend/cuda/device/matrix_builder.h"
#include "base/result.h"
#include "model/checked_tensors.h"

namespace pie::cuda {

class TensorReader : public CheckedTensors {
 public:
  using CheckedTensors::CheckedTensors;

  // The kind in which a matrix keeps a tensor as it is, or kBf16 if there is none. `columns_move`:
  // they do not stay where they are in the file.
  WeightKind KindOf(const Tensor& tensor, bool columns_move);
  // Finds a tensor for a matrix. One in fp8 that the matrix does not keep is unpacked.
  Result<const Tensor*> FindFor(const MatrixBuilder& matrix, std::string_view name,
                                const Shape& shape, bool columns_move = false);
  // Puts rows of a tensor into a matrix, and releases their part of the file from memory.
  Status Put(MatrixBuilder& matrix, const Tensor& tensor, uint64_t first, uint64_t count,
             const MatrixBuilder::Place& row, const MatrixBuilder::Place& column = {});
};

}  // namespace pie::cuda
