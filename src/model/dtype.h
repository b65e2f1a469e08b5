// DType: how the numbers of a tensor are stored. A quantised type stores a row in blocks:
// `block_elements` numbers in `block_bytes` bytes. The list has every type that model files use;
// dequantize.h and the backends decide which of them they can compute with.
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
  kF8E4M3,  // in safetensors, with scales in another tensor (checked_tensors.h)
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  // as GGUF tools write it: "Q4_K"
  uint32_t block_elements;
  uint32_t block_bytes;
  int32_t gguf_number;  // -1 if GGUF has no such type
};

std::span<const DTypeInfo> AllDTypes();
const DTypeInfo& InfoOf(DType dtype);
inline std::string_view NameOf(DType dtype) {
  return InfoOf(dtype).name;
}

// Returns none for numbers that no known type has. Types that GGUF has withdrawn are unknown.
std::optional<DType> DTypeFromGguf(uint32_t number);
// Takes the names of safetensors headers: "F32", "BF16", …
std::optional<DType> DTypeFromSafetensors(std::string_view name);

// Size of a tensor in bytes; `shape` has the outermost dimension first. Fails if a dimension is
// zero, a row is not a whole number of blocks, or the size exceeds 2^63.
Result<uint64_t> TensorBytes(DType dtype, std::span<const uint64_t> shape);

}  // namespace pie
