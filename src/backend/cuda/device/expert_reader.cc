#include "backend/cuda/device/expert_reader.h"

#include <fmt/format.h>

#include <mutex>
#include <optional>
#include <vector>

#include "model/dequantize.h"

namespace pie::cuda {
namespace {

constexpr uint64_t kBlock = 32;  // numbers of an MXFP4 block
constexpr uint64_t kBlockBytes = kBlock / 2;

}  // namespace

WeightKind ExpertReader::KindOf(std::initializer_list<std::string_view> names) const {
  if (names_.experts == ExpertStorage::kInterleaved) return WeightKind::kBf16;
  std::optional<WeightKind> common;
  const uint64_t each = names_.experts == ExpertStorage::kEach ? config_.moe.experts : 1;
  for (const std::string_view name : names) {
    for (uint64_t e = 0; e < each; ++e) {
      const Tensor* const tensor =
          reader_.Peek(Name(fmt::format(fmt::runtime(name), e), ".weight"));
      if (tensor == nullptr || tensor->shape.empty()) return WeightKind::kBf16;
      const WeightKind kind = reader_.KindOf(*tensor, false);
      if (common && *common != kind) return WeightKind::kBf16;
      common = kind;
    }
  }
  return common.value_or(WeightKind::kBf16);
}

Status ExpertReader::Read(std::string_view name, uint64_t part, uint64_t rows, uint64_t columns,
                          MatrixBuilder& matrix, const PlaceOf& place, std::span<float> biases) {
  const uint64_t experts = config_.moe.experts;
  if (names_.experts == ExpertStorage::kInterleaved) {
    const uint64_t parts = name == names_.expert_down ? 1 : 2;
    return Interleaved(name, part, parts, rows, columns, matrix, place, biases);
  }
  const bool each = names_.experts == ExpertStorage::kEach;
  const Tensor* stacked = nullptr;
  std::vector<float> all;
  if (!each) {
    stacked = PIE_TRY(reader_.FindFor(matrix, Name(name, ".weight"), {experts, rows, columns}));
    if (!biases.empty()) all = PIE_TRY(reader_.Floats(Name(name, ".bias"), {experts, rows}));
  }
  for (uint64_t e = 0; e < experts; ++e) {
    const auto to = place(e);
    if (each) {
      const std::string own = fmt::format(fmt::runtime(name), e);
      const Tensor& tensor =
          *PIE_TRY(reader_.FindFor(matrix, Name(own, ".weight"), {rows, columns}));
      PIE_RETURN_IF_ERROR(reader_.Put(matrix, tensor, 0, rows, to));
      if (!biases.empty()) {
        const auto values = PIE_TRY(reader_.Floats(Name(own, ".bias"), {rows}));
        for (uint64_t i = 0; i < rows; ++i) biases[to(i)] = values[i];
      }
    } else {
      PIE_RETURN_IF_ERROR(reader_.Put(matrix, *stacked, e * rows, rows, to));
      for (uint64_t i = 0; i < rows && !all.empty(); ++i) biases[to(i)] = all[e * rows + i];
    }
  }
  return {};
}

Status ExpertReader::Interleaved(std::string_view name, uint64_t part, uint64_t parts,
                                 uint64_t rows, uint64_t columns, MatrixBuilder& matrix,
                                 const PlaceOf& place, std::span<float> biases) {
  const uint64_t experts = config_.moe.experts;
  const uint64_t all_rows = rows * parts;
  const auto values = PIE_TRY(reader_.Floats(Name(name, "_bias"), {experts, all_rows}));
  const bool packed = reader_.Has(Name(name, "_blocks"));
  const Tensor* numbers = nullptr;
  const Tensor* scales = nullptr;
  if (packed) {
    const uint64_t blocks = columns / kBlock;
    numbers =
        PIE_TRY(reader_.Find(Name(name, "_blocks"), {experts, all_rows, blocks, kBlockBytes}));
    scales = PIE_TRY(reader_.Find(Name(name, "_scales"), {experts, all_rows, blocks}));
    if (numbers->dtype != DType::kU8 || scales->dtype != DType::kU8 || columns % kBlock != 0) {
      return reader_.BadTensor(*numbers,
                               {Code::kInvalid, fmt::format("{} blocks of {} numbers are not MXFP4",
                                                            NameOf(numbers->dtype), columns)});
    }
  } else {
    numbers = PIE_TRY(reader_.Find(Name(name, ""), {experts, columns, all_rows}));
  }
  std::mutex mutex;
  std::optional<Error> error;
  ForAll(experts, [&](uint64_t e) {
    const auto to = place(e);
    for (uint64_t i = 0; i < rows && !biases.empty(); ++i) {
      biases[to(i)] = values[e * all_rows + i * parts + part];
    }
    const auto expert = packed ? Blocks(*numbers, *scales, e, part, parts, rows, columns)
                               : Transposed(*numbers, e, part, parts, rows, columns);
    if (!expert) {
      const std::lock_guard lock(mutex);
      error = expert.error();
      return;
    }
    matrix.PutFloats(*expert, rows, to);  // experts have rows of their own
  });
  if (error) return reader_.BadTensor(*numbers, *error);
  if (part + 1 == parts) reader_.Done(numbers->data);
  return {};
}

Result<std::vector<float>> ExpertReader::Transposed(const Tensor& all, uint64_t expert,
                                                    uint64_t part, uint64_t parts, uint64_t rows,
                                                    uint64_t columns) const {
  const uint64_t all_rows = rows * parts;
  const uint64_t bytes = all.data.size() / config_.moe.experts;
  std::vector<float> numbers(columns * all_rows);
  PIE_RETURN_IF_ERROR(Dequantize(all.dtype, all.data.subspan(expert * bytes, bytes), numbers));
  std::vector<float> out(rows * columns);
  for (uint64_t c = 0; c < columns; ++c) {
    for (uint64_t i = 0; i < rows; ++i) {
      out[i * columns + c] = numbers[c * all_rows + i * parts + part];
    }
  }
  return out;
}

// In safetensors a byte holds two neighbouring numbers, with the exponents in another tensor.
// GGUF's blocks begin with the exponent, and a byte holds numbers i and i + 16.
Result<std::vector<float>> ExpertReader::Blocks(const Tensor& bits, const Tensor& scales,
                                                uint64_t expert, uint64_t part, uint64_t parts,
                                                uint64_t rows, uint64_t columns) const {
  const uint64_t blocks = columns / kBlock;
  std::vector<std::byte> packed(rows * blocks * (1 + kBlockBytes));
  std::byte* to = packed.data();
  for (uint64_t i = 0; i < rows; ++i) {
    const uint64_t first = (expert * rows * parts + i * parts + part) * blocks;
    for (uint64_t b = first; b < first + blocks; ++b, to += 1 + kBlockBytes) {
      const std::byte* const in = &bits.data[b * kBlockBytes];
      to[0] = scales.data[b];
      for (uint64_t j = 0; j < kBlockBytes; ++j) {
        const int shift = j % 2 == 0 ? 0 : 4;
        const std::byte low = in[j / 2] >> shift & std::byte{0xF};
        const std::byte high = in[(j + kBlockBytes) / 2] >> shift & std::byte{0xF};
        to[1 + j] = low | high << 4;
      }
    }
  }
  std::vector<float> out(rows * columns);
  PIE_RETURN_IF_ERROR(Dequantize(DType::kMXFP4, packed, out));
  return out;
}

}  // namespace pie::cuda
