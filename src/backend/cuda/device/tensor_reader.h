// TensorReader: finds tensors of a model file by name and checks their shapes. Every error names
// the file and the tensor. Lives while a model is loaded, on one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/device/matrix_builder.h"
#include "base/result.h"
#include "model/model_files.h"
#include "model/weight_names.h"

namespace pie::cuda {

class TensorReader {
 public:
  using Progress = std::function<void(uint64_t done, uint64_t total)>;
  using Shape = std::vector<uint64_t>;

  TensorReader(const ModelFiles& files, const Progress& progress);

  bool Has(std::string_view name) const { return files_.tensors().Find(name) != nullptr; }
  // Fails if the tensor is missing or has another shape.
  Result<const Tensor*> Find(std::string_view name, const Shape& shape);
  Result<std::vector<float>> Floats(std::string_view name, const Shape& shape);
  // Puts rows of a tensor into a matrix, and releases their part of the file from memory.
  Status Put(MatrixBuilder& matrix, const Tensor& tensor, uint64_t first, uint64_t count,
             const MatrixBuilder::Place& row, const MatrixBuilder::Place& column = {});

  // Reports that a part of a tensor has been read, and releases its memory.
  void Done(std::span<const std::byte> data);
  void Finish();  // everything has been read
  // Refuses tensors that the engine would ignore, because results would be wrong without them.
  Status CheckUnused(const WeightNames& names) const;
  std::unexpected<Error> BadTensor(const Tensor& tensor, const Error& error) const;

 private:
  const ModelFiles& files_;
  const Progress& progress_;
  std::set<std::string, std::less<>> used_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace pie::cuda
