// Makes weights of any type as in a model file, for tests: random bytes with moderate scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "backend/cpu/machine/simd.h"
#include "base/random.h"
#include "model/dtype.h"

namespace pie::cpu {

inline std::vector<std::byte> RandomWeights(DType dtype, uint32_t rows, uint32_t columns,
                                            uint64_t seed) {
  const DTypeInfo& info = InfoOf(dtype);
  const size_t blocks = static_cast<size_t>(rows) * columns / info.block_elements;
  std::vector<std::byte> data(blocks * info.block_bytes);
  const CounterRng rng{seed};
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(rng.Bits(i) & 0xFF);
  for (size_t b = 0; b < blocks; ++b) {
    std::byte* const block = data.data() + b * info.block_bytes;
    const float value = rng.Float(data.size() + b) - 0.5F;
    const auto put = [&](size_t at, float number) {
      const uint16_t half = FloatToHalf(number);
      std::memcpy(block + at, &half, 2);
    };
    switch (dtype) {
      case DType::kF32:
        std::memcpy(block, &value, 4);
        break;
      case DType::kBF16:
        std::memcpy(block, reinterpret_cast<const std::byte*>(&value) + 2, 2);
        break;
      case DType::kQ4_1:
      case DType::kQ5_1:
        put(0, value);
        put(2, -value * 7);
        break;
      case DType::kQ2_K:
        put(80, value);
        put(82, value / 3);
        break;
      case DType::kQ3_K:
        put(108, value);
        break;
      case DType::kQ4_K:
      case DType::kQ5_K:
        put(0, value);
        put(2, value * 7);
        break;
      case DType::kQ6_K:
        put(208, value);
        break;
      case DType::kMXFP4:
        block[0] = static_cast<std::byte>(120 + b % 9);
        break;
      default:
        put(0, value);
    }
  }
  return data;
}

}  // namespace pie::cpu
