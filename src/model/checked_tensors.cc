#include "model/checked_tensors.h"

#include <fmt/ranges.h>

#include "model/dequantize.h"
#include "model/shown.h"

namespace pie {

CheckedTensors::CheckedTensors(const ModelFiles& files, const Progress& progress)
    : files_(files), progress_(progress) {
  for (const Tensor& tensor : files.tensors().all()) total_ += tensor.data.size();
}

Result<const Tensor*> CheckedTensors::Find(std::string_view name, const Shape& shape) {
  const Tensor* const tensor = files_.tensors().Find(name);
  if (tensor == nullptr) {
    return Fail(Code::kInvalid,
                "{}: tensor {} is missing, which {} models need; is the file complete?",
                files_.name(), name, NameOf(files_.config().architecture));
  }
  if (tensor->shape != shape) {
    return Fail(
        Code::kInvalid, "{}: tensor {} has shape [{}], but the model's configuration requires [{}]",
        files_.FileOf(*tensor), name, fmt::join(tensor->shape, ", "), fmt::join(shape, ", "));
  }
  used_.emplace(name);
  return tensor;
}

std::vector<const Tensor*> CheckedTensors::Unused(std::string_view prefix) const {
  std::vector<const Tensor*> unused;
  for (const Tensor& tensor : files_.tensors().all()) {
    if (tensor.name.starts_with(prefix) && !used_.contains(tensor.name)) unused.push_back(&tensor);
  }
  return unused;
}

std::unexpected<Error> CheckedTensors::BadTensor(const Tensor& tensor, const Error& error) const {
  return Fail(error.code, "{}: tensor {}: {}", files_.FileOf(tensor), Shown(tensor.name),
              error.text);
}

Result<std::vector<float>> CheckedTensors::Floats(std::string_view name, const Shape& shape) {
  const Tensor& tensor = *PIE_TRY(Find(name, shape));
  std::vector<float> values(tensor.elements());
  const Status status = Dequantize(tensor.dtype, tensor.data, values);
  if (!status) return BadTensor(tensor, status.error());
  Done(tensor.data);
  return values;
}

void CheckedTensors::Done(std::span<const std::byte> data) {
  files_.Release(data);
  done_ += data.size();
  if (progress_) progress_(done_, total_);
}

void CheckedTensors::Finish() {
  if (progress_ && done_ != total_) progress_(total_, total_);
}

}  // namespace pie
