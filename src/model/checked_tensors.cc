#include "model/checked_tensors.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "model/dequantize.h"
#include "model/fp8.h"
#include "model/half.h"
#include "model/shown.h"

namespace pie {
namespace {

// Tensors of fp8 models besides weights: scales for activations, and for keys and values in fp8.
// Such tensors say how weights were rounded; the results do not depend on them.
bool IsRoundingHint(std::string_view name) {
  constexpr std::string_view kHints[] = {".input_scale",   ".activation_scale", ".output_scale",
                                         ".q_scale",       ".k_scale",          ".v_scale",
                                         ".input_scale_ub"};
  return std::ranges::any_of(kHints, [&](std::string_view hint) { return name.ends_with(hint); });
}

}  // namespace

CheckedTensors::CheckedTensors(const ModelFiles& files, const Progress& progress)
    : files_(files), progress_(progress) {
  for (const Tensor& tensor : files.tensors().all()) total_ += tensor.data.size();
}

Result<const Tensor*> CheckedTensors::Find(std::string_view name, const Shape& shape) {
  const Tensor* const tensor = PIE_TRY(FindStored(name, shape));
  return tensor->dtype == DType::kF8E4M3 ? Unpack(*tensor) : Result<const Tensor*>(tensor);
}

Result<const Tensor*> CheckedTensors::FindStored(std::string_view name, const Shape& shape) {
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

Result<Fp8Scales> CheckedTensors::ScalesOf(const Tensor& tensor) {
  const std::string inverse = tensor.name + "_scale_inv";
  const std::string name = Has(inverse) ? inverse : tensor.name + "_scale";
  const Tensor* const found = files_.tensors().Find(name);
  if (found == nullptr) {
    return BadTensor(tensor, {Code::kInvalid, fmt::format("its type is F8_E4M3, but there is no "
                                                          "tensor {} with its scales",
                                                          Shown(inverse))});
  }
  used_.emplace(name);
  const uint64_t columns = tensor.shape.back();
  const uint64_t rows = tensor.elements() / columns;
  const Fp8Config& config = files_.config().fp8;
  Fp8Scales scales{.values = std::vector<float>(found->elements()),
                   .block_rows = rows,
                   .block_columns = columns};
  const auto blocks = [](uint64_t size, uint64_t block) { return (size + block - 1) / block; };
  if (found->elements() != 1) {
    const bool by_rows = found->shape == Shape{rows} || found->shape == Shape{rows, 1};
    if (!by_rows && (config.block_rows == 0 || tensor.shape.size() != 2 ||
                     found->shape != Shape{blocks(rows, config.block_rows),
                                           blocks(columns, config.block_columns)})) {
      return BadTensor(
          *found,
          {Code::kInvalid, fmt::format("its shape [{}] fits neither the tensor [{}] nor its "
                                       "rows, nor its blocks of {} × {}",
                                       fmt::join(found->shape, ", "), fmt::join(tensor.shape, ", "),
                                       config.block_rows, config.block_columns)});
    }
    scales.block_rows = by_rows ? 1 : config.block_rows;
    scales.block_columns = by_rows ? columns : config.block_columns;
    scales.across = by_rows ? 1 : found->shape[1];
  }
  if (const Status status = Dequantize(found->dtype, found->data, scales.values); !status) {
    return BadTensor(*found, status.error());
  }
  return scales;
}

Result<const Tensor*> CheckedTensors::Unpack(const Tensor& tensor) {
  const auto known = std::ranges::find(unpacked_, tensor.name, [](const Unpacked& unpacked) {
    return std::string_view(unpacked.tensor.name);
  });
  if (known != unpacked_.end()) return &known->tensor;
  const Fp8Scales scales = PIE_TRY(ScalesOf(tensor));
  Unpacked& to = unpacked_.emplace_back();
  to.numbers.resize(tensor.elements());
  const uint64_t columns = tensor.shape.back();
  for (uint64_t i = 0; i < to.numbers.size(); ++i) {
    const float number = E4m3ToFloat(static_cast<uint8_t>(tensor.data[i]));
    to.numbers[i] = FloatToBFloat(number * scales.Of(i / columns, i % columns));
  }
  to.tensor = {.name = tensor.name,
               .dtype = DType::kBF16,
               .shape = tensor.shape,
               .data = std::as_bytes(std::span(to.numbers))};
  to.bytes_left = to.tensor.data.size();
  files_.Release(tensor.data);
  return &to.tensor;
}

std::vector<const Tensor*> CheckedTensors::Unused(std::string_view prefix) const {
  std::vector<const Tensor*> unused;
  for (const Tensor& tensor : files_.tensors().all()) {
    if (!tensor.name.starts_with(prefix) || used_.contains(tensor.name)) continue;
    if (files_.config().fp8.used && IsRoundingHint(tensor.name)) continue;
    unused.push_back(&tensor);
  }
  return unused;
}

Status CheckedTensors::CheckUnused(const WeightNames& names) const {
  const std::string layers = names.layer.substr(0, names.layer.find("{}"));
  for (const Tensor* const tensor : Unused(names.everything_is_known ? "" : layers)) {
    const std::string& name = tensor->name;
    if (name.starts_with("rope_") || name.find("rotary_emb") != name.npos) continue;
    return BadTensor(*tensor,
                     {Code::kUnavailable,
                      "this architecture has no such tensor; either the file is broken, or it is a "
                      "variant of the architecture that is not supported"});
  }
  return {};
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
  const auto of = std::ranges::find_if(unpacked_, [&](const Unpacked& unpacked) {
    const auto all = unpacked.tensor.data;
    return all.data() <= data.data() && data.data() < all.data() + all.size();
  });
  if (of == unpacked_.end()) {
    files_.Release(data);
    done_ += data.size();
  } else {  // two bytes for each of the file
    done_ += data.size() / 2;
    of->bytes_left -= std::min(of->bytes_left, data.size());
    if (of->bytes_left == 0) unpacked_.erase(of);
  }
  if (progress_) progress_(done_, total_);
}

void CheckedTensors::Finish() {
  if (progress_ && done_ != total_) progress_(total_, total_);
}

}  // namespace pie
