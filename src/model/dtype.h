// DType: how the numbers of a tensor are stored. Quantised types store a row in blocks of
// `block_elements` numbers, `block_bytes` each. Knows every type that model files carry; which of
// them can be computed with is up to dequantize.h and the backends.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace pie {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kIQ4_NL,
  kIQ4_XS,
  kTQ1_0,
  kTQ2_0,
  kMXFP4,
  kNVFP4,
  kQ1_0,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as GGUF tools write it: "Q4_K"
  uint32_t block_elements;
  uint32_t block_bytes;
  int32_t gguf_number;  // -1 when GGUF has no such type
};

std::span<const DTypeInfo> AllDTypes();
const DTypeInfo& InfoOf(DType dtype);
inline std::string_view NameOf(DType dtype) {
  return InfoOf(dtype).name;
}

// None for numbers that no known type has, among them types that GGUF has withdrawn.
std::optional<DType> DTypeFromGguf(uint32_t number);
// The names of safetensors headers: "F32", "BF16", …
std::optional<DType> DTypeFromSafetensors(std::string_view name);

// Bytes of a tensor, outermost dimension first. Fails on a dimension of zero, on a row that is no
// whole number of blocks, and on sizes beyond 2^63.
Result<uint64_t> TensorBytes(DType dtype, std::span<const uint64_t> shape);

}  // namespace pie
