// Converts the two 16-bit floating-point formats of model files to float, which is exact, and
// floats to one of them.
#pragma once

#include <bit>
#include <cstdint>

namespace pie {

// IEEE binary16: 1 sign, 5 exponent, 10 fraction bits.
constexpr float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t exponent = (half >> 10) & 0x1FU;
  const uint32_t fraction = half & 0x3FFU;
  if (exponent == 0) {  // zero and subnormals: fraction × 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t widened = exponent == 0x1F ? 0xFFU : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (widened << 23) | (fraction << 13));
}

// bfloat16: the upper half of a float.
constexpr float BFloatToFloat(uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat) << 16);
}

// Rounds to the nearest bfloat16, ties to even.
constexpr uint16_t FloatToBFloat(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  if (x != x) return static_cast<uint16_t>(bits >> 16 | 0x40U);
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

}  // namespace pie
