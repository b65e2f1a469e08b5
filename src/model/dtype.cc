#include "model/dtype.h"

#include <algorithm>
#include <array>

namespace pie {
namespace {

// In the order of the enumeration.
constexpr auto kInfos = std::to_array<DTypeInfo>({
    {DType::kF32, "F32", 1, 4, 0},
    {DType::kF16, "F16", 1, 2, 1},
    {DType::kBF16, "BF16", 1, 2, 30},
    {DType::kF64, "F64", 1, 8, 28},
    {DType::kI8, "I8", 1, 1, 24},
    {DType::kI16, "I16", 1, 2, 25},
    {DType::kI32, "I32", 1, 4, 26},
    {DType::kI64, "I64", 1, 8, 27},
    {DType::kU8, "U8", 1, 1, -1},
    {DType::kQ4_0, "Q4_0", 32, 2 + 16, 2},
    {DType::kQ4_1, "Q4_1", 32, 2 + 2 + 16, 3},
    {DType::kQ5_0, "Q5_0", 32, 2 + 4 + 16, 6},
    {DType::kQ5_1, "Q5_1", 32, 2 + 2 + 4 + 16, 7},
    {DType::kQ8_0, "Q8_0", 32, 2 + 32, 8},
    {DType::kQ2_K, "Q2_K", 256, 16 + 64 + 2 + 2, 10},
    {DType::kQ3_K, "Q3_K", 256, 32 + 64 + 12 + 2, 11},
    {DType::kQ4_K, "Q4_K", 256, 2 + 2 + 12 + 128, 12},
    {DType::kQ5_K, "Q5_K", 256, 2 + 2 + 12 + 32 + 128, 13},
    {DType::kQ6_K, "Q6_K", 256, 128 + 64 + 16 + 2, 14},
    {DType::kIQ1_S, "IQ1_S", 256, 2 + 32 + 16, 19},
    {DType::kIQ1_M, "IQ1_M", 256, 32 + 16 + 8, 29},
    {DType::kIQ2_XXS, "IQ2_XXS", 256, 2 + 64, 16},
    {DType::kIQ2_XS, "IQ2_XS", 256, 2 + 64 + 8, 17},
    {DType::kIQ2_S, "IQ2_S", 256, 2 + 64 + 16, 22},
    {DType::kIQ3_XXS, "IQ3_XXS", 256, 2 + 64 + 32, 18},
    {DType::kIQ3_S, "IQ3_S", 256, 2 + 64 + 32 + 8 + 4, 21},
    {DType::kIQ4_NL, "IQ4_NL", 32, 2 + 16, 20},
    {DType::kIQ4_XS, "IQ4_XS", 256, 2 + 2 + 4 + 128, 23},
    {DType::kTQ1_0, "TQ1_0", 256, 48 + 4 + 2, 34},
    {DType::kTQ2_0, "TQ2_0", 256, 64 + 2, 35},
    {DType::kMXFP4, "MXFP4", 32, 1 + 16, 39},
    {DType::kNVFP4, "NVFP4", 64, 4 + 32, 40},
    {DType::kQ1_0, "Q1_0", 128, 2 + 16, 41},
    {DType::kF8E4M3, "F8_E4M3", 1, 1, -1},
});

constexpr bool InOrder() {
  for (size_t i = 0; i < kInfos.size(); ++i) {
    if (static_cast<size_t>(kInfos[i].dtype) != i) return false;
  }
  return true;
}
static_assert(InOrder());

// The types that safetensors files may have. Their names in the format are the same as ours.
constexpr std::array kInSafetensors = {DType::kF32, DType::kF16,   DType::kBF16, DType::kF64,
                                       DType::kI8,  DType::kI16,   DType::kI32,  DType::kI64,
                                       DType::kU8,  DType::kF8E4M3};

}  // namespace

std::span<const DTypeInfo> AllDTypes() {
  return kInfos;
}

const DTypeInfo& InfoOf(DType dtype) {
  return kInfos[static_cast<size_t>(dtype)];
}

std::optional<DType> DTypeFromGguf(uint32_t number) {
  const auto* info = std::ranges::find_if(
      kInfos, [&](const DTypeInfo& i) { return i.gguf_number == static_cast<int64_t>(number); });
  if (info == kInfos.end()) return std::nullopt;
  return info->dtype;
}

std::optional<DType> DTypeFromSafetensors(std::string_view name) {
  const auto* dtype = std::ranges::find(kInSafetensors, name, NameOf);
  if (dtype == kInSafetensors.end()) return std::nullopt;
  return *dtype;
}

Result<uint64_t> TensorBytes(DType dtype, std::span<const uint64_t> shape) {
  const DTypeInfo& info = InfoOf(dtype);
  const uint64_t row = shape.empty() ? 1 : shape.back();
  if (row % info.block_elements != 0) {
    return Fail(Code::kInvalid,
                "a row of {} numbers is not a whole number of {} blocks ({} numbers each)", row,
                info.name, info.block_elements);
  }
  uint64_t bytes = info.block_bytes;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool last = i + 1 == shape.size();
    const uint64_t blocks = last ? shape[i] / info.block_elements : shape[i];
    if (blocks == 0) return Fail(Code::kInvalid, "dimension {} is zero", i);
    if (__builtin_mul_overflow(bytes, blocks, &bytes) || bytes > uint64_t{1} << 63) {
      return Fail(Code::kInvalid, "its size exceeds 2^63 bytes");
    }
  }
  return bytes;
}

}  // namespace pie
