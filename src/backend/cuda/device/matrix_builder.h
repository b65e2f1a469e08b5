// MatrixBuilder: puts a bfloat16 matrix together from parts of a model file's tensors, in the order
// and with the padding that the kernels want. One thread owns it; conversion uses all processors.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "model/tensor.h"

namespace pie::cuda {

class MatrixBuilder {
 public:
  // Where row or column i of a tensor goes.
  using Place = std::function<uint64_t(uint64_t)>;

  MatrixBuilder(uint64_t rows, uint64_t columns);

  // Places rows [first, first + count) of a tensor whose rows are as long as its last dimension.
  // Without `column`, columns stay where they are. Fails if the type cannot be converted.
  Status Put(const Tensor& tensor, uint64_t first, uint64_t count, const Place& row,
             const Place& column = {});
  // The same from numbers, [count, columns].
  void PutFloats(std::span<const float> numbers, uint64_t count, const Place& row);

  std::span<const uint16_t> numbers() const { return numbers_; }

 private:
  uint64_t columns_;
  std::vector<uint16_t> numbers_;  // zeros where nothing was put
};

// Calls f(i) for i in [0, count) on all processors.
void ForAll(uint64_t count, const std::function<void(uint64_t)>& f);

// Rounds to the nearest bfloat16, ties to even.
uint16_t ToBFloat(float x);

}  // namespace pie::cuda
