// CheckedTensors: finds tensors of a model's files by name and checks their shapes. Every error
// names the file and the tensor. Devices read weights through it.
//
// Lives while a model is loaded, on one thread; `files` and `progress` must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model_files.h"

namespace pie {

class CheckedTensors {
 public:
  // Called with the bytes of tensors read so far, and the total.
  using Progress = std::function<void(uint64_t done, uint64_t total)>;
  using Shape = std::vector<uint64_t>;

  CheckedTensors(const ModelFiles& files, const Progress& progress);

  bool Has(std::string_view name) const { return files_.tensors().Find(name) != nullptr; }
  // Finds a tensor and marks it as used. Fails if it is missing or has another shape.
  Result<const Tensor*> Find(std::string_view name, const Shape& shape);
  // Returns the unused tensors whose names begin with `prefix`.
  std::vector<const Tensor*> Unused(std::string_view prefix) const;
  // Reads a whole tensor as floats.
  Result<std::vector<float>> Floats(std::string_view name, const Shape& shape);

  // Reports that a part of a tensor has been read, and releases its memory.
  void Done(std::span<const std::byte> data);
  // Reports that loading is complete, whatever was not read.
  void Finish();

  std::unexpected<Error> BadTensor(const Tensor& tensor, const Error& error) const;

 private:
  const ModelFiles& files_;
  const Progress& progress_;
  std::set<std::string, std::less<>> used_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace pie
