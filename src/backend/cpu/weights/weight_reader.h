// WeightReader: takes tensors of a model file by name, checks their shapes, and packs them.
//
// Every error names the file and the tensor. What was packed leaves the file's mapping at once, so
// that loading needs little more memory than the packed weights. Lives for the time of loading, on
// one thread; `files` and `arena` outlive it.
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

// Bytes of the files' tensors that have been read, and of all of them.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

using Shape = std::vector<uint64_t>;

class WeightReader {
 public:
  WeightReader(const ModelFiles& files, Arena& arena, const LoadProgress& progress);

  bool Has(std::string_view name) const { return files_.tensors().Find(name) != nullptr; }
  // Fails when it is missing or of another shape. It then counts as used.
  Result<const Tensor*> Find(std::string_view name, const Shape& shape);
  // The tensors whose names begin so and that nobody has asked for.
  std::vector<const Tensor*> Unused(std::string_view prefix) const;

  // Rows [first, first + rows) of a tensor taken as rows as long as its last dimension.
  Result<PackedMatrix> Rows(const Tensor& tensor, uint64_t first, uint64_t rows);
  // A whole tensor, [rows, columns].
  Result<PackedMatrix> Matrix(std::string_view name, uint64_t rows, uint64_t columns);
  // Rows that the caller has put in order, of `dtype`; errors name `tensor`.
  Result<PackedMatrix> Pack(const Tensor& tensor, DType dtype, std::span<const std::byte> data,
                            uint64_t rows, uint64_t columns);
  // A whole tensor as floats.
  Result<std::vector<float>> Floats(std::string_view name, const Shape& shape);

  // Part of a tensor has been read: reports it, and lets it go.
  void Done(std::span<const std::byte> data);
  // Everything has been: what is left was not needed.
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
