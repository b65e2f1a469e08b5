// Internal to quantize: shared by its files.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

#include "backend/cpu/machine/simd.h"
#include "backend/cpu/quant/panel_format.h"
#include "backend/cpu/quant/quantize.h"

namespace pie::cpu::quantize {

// Magnitudes are compared as bits, which have the order of floats, with NaN as the largest.
inline constexpr uint32_t kMagnitude = 0x7FFFFFFFU;
inline uint32_t Magnitude(float x) {
  return std::bit_cast<uint32_t>(x) & kMagnitude;
}

// Magnitudes below this count as zero, because 127 / max would exceed the range of float.
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

// The scale for which `max` becomes `count`.
struct Scale {
  float scale;
  float inverse;
};
inline Scale ScaleFor(float max, float count) {
  if (max < kTiny) return {0, 0};
  return {max / count, count / max};
}

// If a sum of the row is not finite, its unit is NaN and its multiples are 0.
inline Scale UnitFor(float max, uint32_t blocks) {
  if (!(max < INFINITY)) return {std::numeric_limits<float>::quiet_NaN(), 0};
  return ScaleFor(max, static_cast<float>(WholeLimit(blocks)));
}

// Returns the sum of sixteen signed bytes. They are made unsigned so that one instruction adds
// eight.
PIE_AVX2 inline int32_t Sum16(__m128i bytes) {
  const __m128i t = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return _mm_cvtsi128_si32(_mm_add_epi64(t, _mm_unpackhi_epi64(t, t))) - 16 * 128;
}

// Quantises one row with AVX-512. Modifies x temporarily and restores it.
void RowAvx512(float* x, const RowOut& out);

}  // namespace pie::cpu::quantize
