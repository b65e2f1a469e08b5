// MatrixBuilder: puts a matrix together from parts of a model file's tensors, in the order and with
// the padding that the kernels want, as bfloat16 numbers or packed (kernels/packed.h). One thread
// owns it; conversion uses all processors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "backend/cuda/kernels/packed.h"
#include "base/result.h"
#include "model/checked_tensors.h"
#include "model/half.h"
#include "model/tensor.h"

namespace pie::cuda {

// The kind that holds the same numbers as a type of model files; none: it is unpacked.
std::optional<WeightKind> KindFor(DType dtype);

// Memory of matrices that are put together one after another: the system's pages are taken once.
class MatrixRoom {
 public:
  struct Memory {
    std::unique_ptr<std::byte[]> data;
    uint64_t capacity = 0;
  };
  Memory Take(uint64_t bytes);  // with any content
  void GiveBack(Memory memory) { free_.push_back(std::move(memory)); }

 private:
  std::vector<Memory> free_;
};

class MatrixBuilder {
 public:
  // The place of a tensor's row or column i in the matrix.
  using Place = std::function<uint64_t(uint64_t)>;

  // `matrices` of the same size, one below the other. `room` outlives the builder.
  MatrixBuilder(WeightKind kind, uint64_t rows, uint64_t columns, uint64_t matrices = 1,
                MatrixRoom* room = nullptr);
  ~MatrixBuilder();
  MatrixBuilder(const MatrixBuilder&) = delete;
  MatrixBuilder& operator=(const MatrixBuilder&) = delete;

  // Places rows [first, first + count) of a tensor whose rows are as long as its last dimension.
  // Without `column`, columns stay where they are. `scales`: of a tensor in fp8, which only a
  // matrix of that kind takes. Fails if the type cannot be converted.
  Status Put(const Tensor& tensor, const Fp8Scales* scales, uint64_t first, uint64_t count,
             const Place& row, const Place& column = {});
  // The same from numbers, [count, columns]: bfloat16 and fp8.
  void PutFloats(std::span<const float> numbers, uint64_t count, const Place& row);

  WeightKind kind() const { return kind_; }
  uint64_t rows() const { return rows_; }  // of a matrix
  std::span<const std::byte> data() const { return data_; }
  std::span<const std::byte> scales() const { return scales_; }  // empty for bfloat16

 private:
  std::byte* TileAt(uint64_t row, uint64_t span);
  std::byte* ScalesAt(uint64_t row, uint64_t span);
  void Store(uint64_t row, uint64_t column, uint32_t bits);
  void StoreHalf(uint64_t row, uint64_t column, uint32_t index, float value);
  void PutRow(std::span<const float> numbers, uint64_t row, const Place& column);
  Status PutFp8(std::span<const std::byte> data, const Fp8Scales& scales, uint64_t from,
                uint64_t row, const Place& column);
  Status PutBlocks(DType dtype, std::span<const std::byte> data, uint64_t row);

  const WeightKind kind_;
  const uint64_t rows_;
  const uint64_t columns_;
  MatrixRoom* const room_;
  MatrixRoom::Memory memory_;
  std::span<std::byte> data_;  // zeros where nothing was put
  std::vector<std::byte> scales_;
};

// Calls f(i) for i in [0, count) on all processors.
void ForAll(uint64_t count, const std::function<void(uint64_t)>& f);

}  // namespace pie::cuda
