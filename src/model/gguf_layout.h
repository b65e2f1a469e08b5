// Sizes of values in GGUF files, shared by gguf.cc and gguf_value.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/gguf.h"

namespace pie::gguf {

inline constexpr size_t kArrayHeader = sizeof(uint32_t) + sizeof(uint64_t);  // type, count

// 0 for strings, arrays and unknown types.
constexpr size_t ScalarBytes(GgufType type) {
  switch (type) {
    case GgufType::kU8:
    case GgufType::kI8:
    case GgufType::kBool:
      return 1;
    case GgufType::kU16:
    case GgufType::kI16:
      return 2;
    case GgufType::kU32:
    case GgufType::kI32:
    case GgufType::kF32:
      return 4;
    case GgufType::kU64:
    case GgufType::kI64:
    case GgufType::kF64:
      return 8;
    default:
      return 0;
  }
}

constexpr bool IsScalar(GgufType type) {
  return ScalarBytes(type) != 0;
}

}  // namespace pie::gguf
