// WeightReader: finds tensors of a model file by name, checks their shapes, and packs them.
//
// Every error names the file and the tensor. Packed parts of the file are released from memory at
// once, so loading needs little more memory than the packed weights. Lives while a model is loaded,
// on one thread; `files` and `arena` must outlive it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/machine/arena.h"
#include "backend/cpu/matmul/repack.h"
#include "base/result.h"
#include "model/model_files.h"

namespace pie::cpu {

// Called with the bytes of tensors read so far, and the total.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

using Shape = std::vector<uint64_t>;

class WeightReader {
 public:
  WeightReader(const ModelFiles& files, Arena& arena, const LoadProgress& progress);

  bool Has(std::string_view name) const { return files_.tensors().Find(name) != nullptr; }
  // Finds a tensor and marks it as used. Fails if it is missing or has another shape.
  Result<const Tensor*> Find(std::string_view name, const Shape& shape);
  // Returns the unused tensors whose names begin with `prefix`.
  std::vector<const Tensor*> Unused(std::string_view prefix) const;

  // Packs rows [first, first + rows) of a tensor, whose rows are as long as its last dimension.
  Result<PackedMatrix> Rows(const Tensor& tensor, uint64_t first, uint64_t rows);
  // Packs a whole tensor, [rows, columns].
  Result<PackedMatrix> Matrix(std::string_view name, uint64_t rows, uint64_t columns);
  // Packs rows of `dtype` that the caller has rearranged; errors name `tensor`.
  Result<PackedMatrix> Pack(const Tensor& tensor, DType dtype, std::span<const std::byte> data,
                            uint64_t rows, uint64_t columns);
  // Reads a whole tensor as floats.
  Result<std::vector<float>> Floats(std::string_view name, const Shape& shape);

  // Reports that a part of a tensor has been read, and releases its memory.
  void Done(std::span<const std::byte> data);
  // Reports that loading is complete, whatever was not read.
  void Finish();

  std::unexpected<Error> BadTensor(const Tensor& tensor, const Error& error) const;

 private:
  const ModelFiles& files_;
  Arena& arena_;
  const LoadProgress& progress_;
  std::set<std::string, std::less<>> used_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace pie::cpu
