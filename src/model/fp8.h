// The 8-bit float of model files and of the KV cache, e4m3: 1 sign, 4 exponent, 3 fraction bits. It
// has no infinities; 0x7F and 0xFF are NaN, and the largest number is 448.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace pie {

inline constexpr float kLargestE4m3 = 448;

// Exact.
constexpr float E4m3ToFloat(uint8_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x80U) << 24;
  const uint32_t exponent = (bits >> 3) & 0xFU;
  const uint32_t fraction = bits & 7U;
  if ((bits & 0x7FU) == 0x7FU) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) {  // zero and subnormals: fraction × 2^-9
    const float magnitude = static_cast<float>(fraction) * 0x1p-9F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + (127 - 7)) << 23 | fraction << 20);
}

// Rounds to the nearest, ties to even. Larger numbers than 448 become 448; NaN stays NaN.
inline uint8_t FloatToE4m3(float x) {
  const uint32_t sign = std::bit_cast<uint32_t>(x) >> 24 & 0x80U;
  if (std::isnan(x)) return static_cast<uint8_t>(sign | 0x7FU);
  const float magnitude = std::min(std::abs(x), kLargestE4m3);
  if (magnitude < 0x1p-6F) {  // subnormal: a multiple of 2^-9. Eight of them are the number 2^-6.
    return static_cast<uint8_t>(sign | static_cast<uint32_t>(std::nearbyint(magnitude * 0x1p9F)));
  }
  uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  bits += 0x7FFFFU + (bits >> 20 & 1U);
  return static_cast<uint8_t>(sign | ((bits >> 20) - ((127 - 7) << 3)));
}

}  // namespace pie
