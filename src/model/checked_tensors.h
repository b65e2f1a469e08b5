// CheckedTensors: finds tensors of a model's files by name and checks their shapes. Every error
// names the file and the tensor. Devices read weights through it.
//
// Weights in fp8 have their scales in a tensor beside them: NAME.weight_scale_inv or
// NAME.weight_scale, which holds one for the whole tensor, one for each row, or one for each block.
// Find unpacks such weights to bfloat16; FindStored leaves them as they are.
//
// Lives while a model is loaded, on one thread; `files` and `progress` must outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/model_files.h"
#include "model/weight_names.h"

namespace pie {

// The scales of a tensor in fp8. A weight is its number times its scale.
struct Fp8Scales {
  std::vector<float> values;  // [⌈rows / block_rows⌉, across]
  uint64_t block_rows = 1;
  uint64_t block_columns = 1;
  uint64_t across = 1;  // scales of a row

  float Of(uint64_t row, uint64_t column) const {
    return values[row / block_rows * across + column / block_columns];
  }
};

class CheckedTensors {
 public:
  // Called with the bytes of tensors read so far, and the total.
  using Progress = std::function<void(uint64_t done, uint64_t total)>;
  using Shape = std::vector<uint64_t>;

  CheckedTensors(const ModelFiles& files, const Progress& progress);

  bool Has(std::string_view name) const { return Peek(name) != nullptr; }
  // Finds a tensor without marking it as used. Null if there is none.
  const Tensor* Peek(std::string_view name) const { return files_.tensors().Find(name); }
  // Finds a tensor and marks it as used. Fails if it is missing or has another shape. One in fp8 is
  // unpacked to bfloat16, and valid until Done was called for all of it.
  Result<const Tensor*> Find(std::string_view name, const Shape& shape);
  // The same, as the file has it.
  Result<const Tensor*> FindStored(std::string_view name, const Shape& shape);
  // The scales of a tensor of type F8_E4M3. Fails if there are none, or if they have another shape.
  Result<Fp8Scales> ScalesOf(const Tensor& tensor);
  // Returns the unused tensors whose names begin with `prefix`.
  std::vector<const Tensor*> Unused(std::string_view prefix) const;
  // Refuses tensors that the engine would ignore, because the results would be wrong without them.
  // Folders may hold more than a language model, so only the layers are checked there. Rotary
  // frequencies may be ignored: they follow from the configuration.
  Status CheckUnused(const WeightNames& names) const;
  // Reads a whole tensor as floats.
  Result<std::vector<float>> Floats(std::string_view name, const Shape& shape);

  // Reports that a part of a tensor has been read, and releases its memory.
  void Done(std::span<const std::byte> data);
  // Reports that loading is complete, even if some tensors were not read.
  void Finish();

  std::unexpected<Error> BadTensor(const Tensor& tensor, const Error& error) const;

 private:
  struct Unpacked {  // to bfloat16
    Tensor tensor;
    std::vector<uint16_t> numbers;
    size_t bytes_left = 0;
  };
  Result<const Tensor*> Unpack(const Tensor& tensor);

  const ModelFiles& files_;
  const Progress& progress_;
  std::set<std::string, std::less<>> used_;
  std::list<Unpacked> unpacked_;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
};

}  // namespace pie
