#include "backend/cuda/device/tensor_reader.h"

#include <fmt/ranges.h>

#include "model/dequantize.h"
#include "model/shown.h"

namespace pie::cuda {

TensorReader::TensorReader(const ModelFiles& files, const Progress& progress)
    : files_(files), progress_(progress) {
  for (const Tensor& tensor : files.tensors().all()) total_ += tensor.data.size();
}

Result<const Tensor*> TensorReader::Find(std::string_view name, const Shape& shape) {
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

Result<std::vector<float>> TensorReader::Floats(std::string_view name, const Shape& shape) {
  const Tensor& tensor = *PIE_TRY(Find(name, shape));
  std::vector<float> values(tensor.elements());
  const Status status = Dequantize(tensor.dtype, tensor.data, values);
  if (!status) return BadTensor(tensor, status.error());
  Done(tensor.data);
  return values;
}

Status TensorReader::Put(MatrixBuilder& matrix, const Tensor& tensor, uint64_t first,
                         uint64_t count, const MatrixBuilder::Place& row,
                         const MatrixBuilder::Place& column) {
  if (const Status status = matrix.Put(tensor, first, count, row, column); !status) {
    return BadTensor(tensor, status.error());
  }
  const uint64_t rows = tensor.elements() / tensor.shape.back();
  const uint64_t row_bytes = tensor.data.size() / rows;
  Done(tensor.data.subspan(first * row_bytes, count * row_bytes));
  return {};
}

std::unexpected<Error> TensorReader::BadTensor(const Tensor& tensor, const Error& error) const {
  return Fail(error.code, "{}: tensor {}: {}", files_.FileOf(tensor), Shown(tensor.name),
              error.text);
}

void TensorReader::Done(std::span<const std::byte> data) {
  files_.Release(data);
  done_ += data.size();
  if (progress_) progress_(done_, total_);
}

void TensorReader::Finish() {
  if (progress_ && done_ != total_) progress_(total_, total_);
}

// Folders may hold more than a language model, so only the layers are checked there. Rotary
// frequencies follow from the configuration.
Status TensorReader::CheckUnused(const WeightNames& names) const {
  const std::string prefix =
      names.everything_is_known ? "" : names.layer.substr(0, names.layer.find("{}"));
  for (const Tensor& tensor : files_.tensors().all()) {
    const std::string& name = tensor.name;
    if (!name.starts_with(prefix) || used_.contains(name)) continue;
    if (name.starts_with("rope_") || name.find("rotary_emb") != name.npos) continue;
    return BadTensor(tensor, {Code::kUnavailable,
                              "this architecture has no such tensor; either the file is broken, or "
                              "it is a variant of the architecture that is not supported"});
  }
  return {};
}

}  // namespace pie::cuda
