#include "backend/cpu/weights/weight_reader.h"

#include <fmt/ranges.h>

#include "model/dequantize.h"
#include "model/shown.h"

namespace pie::cpu {

WeightReader::WeightReader(const ModelFiles& files, Arena& arena, const LoadProgress& progress)
    : files_(files), arena_(arena), progress_(progress) {
  for (const Tensor& tensor : files.tensors().all()) total_ += tensor.data.size();
}

Result<const Tensor*> WeightReader::Find(std::string_view name, const Shape& shape) {
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

std::vector<const Tensor*> WeightReader::Unused(std::string_view prefix) const {
  std::vector<const Tensor*> unused;
  for (const Tensor& tensor : files_.tensors().all()) {
    if (tensor.name.starts_with(prefix) && !used_.contains(tensor.name)) unused.push_back(&tensor);
  }
  return unused;
}

std::unexpected<Error> WeightReader::BadTensor(const Tensor& tensor, const Error& error) const {
  return Fail(error.code, "{}: tensor {}: {}", files_.FileOf(tensor), Shown(tensor.name),
              error.text);
}

Result<PackedMatrix> WeightReader::Pack(const Tensor& tensor, DType dtype,
                                        std::span<const std::byte> data, uint64_t rows,
                                        uint64_t columns) {
  auto packed = PackedMatrix::Pack(dtype, data, static_cast<uint32_t>(rows),
                                   static_cast<uint32_t>(columns), arena_);
  if (!packed) return BadTensor(tensor, packed.error());
  return packed;
}

Result<PackedMatrix> WeightReader::Rows(const Tensor& tensor, uint64_t first, uint64_t rows) {
  const uint64_t columns = tensor.shape.back();
  const uint64_t row_bytes = tensor.data.size() / (tensor.elements() / columns);
  const auto data = tensor.data.subspan(first * row_bytes, rows * row_bytes);
  auto packed = PIE_TRY(Pack(tensor, tensor.dtype, data, rows, columns));
  Done(data);
  return packed;
}

Result<PackedMatrix> WeightReader::Matrix(std::string_view name, uint64_t rows, uint64_t columns) {
  return Rows(*PIE_TRY(Find(name, {rows, columns})), 0, rows);
}

Result<std::vector<float>> WeightReader::Floats(std::string_view name, const Shape& shape) {
  const Tensor& tensor = *PIE_TRY(Find(name, shape));
  std::vector<float> values(tensor.elements());
  const Status status = Dequantize(tensor.dtype, tensor.data, values);
  if (!status) return BadTensor(tensor, status.error());
  Done(tensor.data);
  return values;
}

void WeightReader::Done(std::span<const std::byte> data) {
  files_.Release(data);
  done_ += data.size();
  if (progress_) progress_(done_, total_);
}

void WeightReader::Finish() {
  if (progress_ && done_ != total_) progress_(total_, total_);
}

}  // namespace pie::cpu
