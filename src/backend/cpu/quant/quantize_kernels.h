// Inside of quantize: what its files share. Not for others.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "backend/cpu/machine/simd.h"
#include "backend/cpu/matmul/panel_format.h"
#include "backend/cpu/quant/quantize.h"

namespace pie::cpu::quantize {

// Magnitudes are compared as bits: they order like floats, and a NaN is the largest.
inline constexpr uint32_t kMagnitude = 0x7FFFFFFFU;
inline uint32_t Magnitude(float x) {
  return std::bit_cast<uint32_t>(x) & kMagnitude;
}

// What is below this is zero: 127 / max would leave the range of float.
inline constexpr float kTiny = 1e-30F;

struct RowOut {
  uint32_t blocks;
  int8_t* values;
  float* scales;  // first the largest magnitude of each block, then its scale
  int32_t* sums;
  int32_t* first_sums;
  int16_t* whole_sums;
  float* sum_unit;
  std::span<Outlier> outliers;
};

// Steps of `count` to the largest number.
struct Scale {
  float scale;
  float inverse;
};
inline Scale ScaleFor(float max, float count) {
  if (max < kTiny) return {0, 0};
  return {max / count, count / max};
}

// A row with a sum that is no number has a unit that is none, and multiples of 0.
inline Scale UnitFor(float max, uint32_t blocks) {
  if (!(max < INFINITY)) return {std::numeric_limits<float>::quiet_NaN(), 0};
  return ScaleFor(max, static_cast<float>(WholeLimit(blocks)));
}

// Of sixteen bytes, made unsigned so that one instruction adds eight of them.
PIE_AVX2 inline int32_t Sum16(__m128i bytes) {
  const __m128i t = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return _mm_cvtsi128_si32(_mm_add_epi64(t, _mm_unpackhi_epi64(t, t))) - 16 * 128;
}

// A row at that level; x is written to meanwhile, and left as it was.
void RowAvx512(float* x, const RowOut& out);

}  // namespace pie::cpu::quantize
