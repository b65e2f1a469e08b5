#include "backend/cpu/attention/kv_q8.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/machine/simd.h"
#include "model/half.h"

namespace pie::cpu {
namespace {

// Shared by all levels: the bytes depend on where a number is rounded.
float ScaleOf(float greatest, uint16_t& half) {
  half = FloatToHalf(greatest / 127);
  const float scale = HalfToFloat(half);
  return scale == 0 ? 0 : 1 / scale;
}

void QuantizeScalar(const float* in, uint32_t n, int8_t* out, uint16_t& half) {
  float greatest = 0;
  for (uint32_t i = 0; i < n; ++i) greatest = std::max(greatest, std::abs(in[i]));
  const float inverse = ScaleOf(greatest, half);
  for (uint32_t i = 0; i < n; ++i) {
    // Clamps because the scale may have been rounded down. NaN becomes -127.
    const float scaled = in[i] * inverse;
    out[i] = static_cast<int8_t>(std::lrint(scaled >= -127 ? std::min(scaled, 127.0F) : -127.0F));
  }
}

PIE_AVX2 __m256i Round(__m256 x, __m256 inverse) {
  const __m256 least = _mm256_max_ps(_mm256_mul_ps(x, inverse), _mm256_set1_ps(-127));
  return _mm256_cvtps_epi32(_mm256_min_ps(least, _mm256_set1_ps(127)));
}

PIE_AVX2 void QuantizeAvx2(const float* in, int8_t* out, uint16_t& half) {
  const __m256 magnitude = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
  const __m256 first = _mm256_loadu_ps(in);
  const __m256 second = _mm256_loadu_ps(in + 8);
  // In this order of operands, max ignores NaN, as std::max does.
  __m256 greatest = _mm256_max_ps(_mm256_and_ps(first, magnitude), _mm256_setzero_ps());
  greatest = _mm256_max_ps(_mm256_and_ps(second, magnitude), greatest);
  const __m256 inverse = _mm256_set1_ps(ScaleOf(Max256(greatest), half));
  const __m256i words = _mm256_packs_epi32(Round(first, inverse), Round(second, inverse));
  const __m256i bytes = _mm256_packs_epi16(words, words);
  // Packing works within halves of a register; this permutation restores the order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                   _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order)));
}

void UnpackScalar(const int8_t* in, const float* scales, uint32_t n, uint16_t* out) {
  for (uint32_t i = 0; i < n; ++i) out[i] = FloatToHalf(static_cast<float>(in[i]) * scales[i]);
}

PIE_AVX2 void Unpack8(const int8_t* in, __m256 scales, uint16_t* out) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
  const __m256 q = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                   _mm256_cvtps_ph(_mm256_mul_ps(q, scales), _MM_FROUND_TO_NEAREST_INT));
}

PIE_AVX2 void UnpackAvx2(const int8_t* in, const float* scales, uint32_t n, uint16_t* out) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) Unpack8(in + i, _mm256_loadu_ps(scales + i), out + i);
  UnpackScalar(in + i, scales + i, n - i, out + i);
}

PIE_AVX2 uint32_t UnpackOneAvx2(const int8_t* in, float scale, uint32_t n, uint16_t* out) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) Unpack8(in + i, _mm256_set1_ps(scale), out + i);
  return i;
}

}  // namespace

void QuantizeKv(CpuLevel level, const float* in, uint32_t n, int8_t* out, size_t stride,
                uint16_t* scales, size_t scale_stride) {
  for (uint32_t at = 0; at < n; at += kKvQuantBlock, scales += scale_stride) {
    const uint32_t count = std::min(kKvQuantBlock, n - at);
    int8_t bytes[kKvQuantBlock];
    if (level >= CpuLevel::kAvx2 && count == kKvQuantBlock) {
      QuantizeAvx2(in + at, bytes, *scales);
    } else {
      QuantizeScalar(in + at, count, bytes, *scales);
    }
    for (uint32_t i = 0; i < count; ++i) out[(at + i) * stride] = bytes[i];
  }
}

void UnpackKv(CpuLevel level, const int8_t* in, const float* scales, uint32_t n, uint16_t* out) {
  (level >= CpuLevel::kAvx2 ? UnpackAvx2 : UnpackScalar)(in, scales, n, out);
}

void UnpackKv(CpuLevel level, const int8_t* in, float scale, uint32_t n, uint16_t* out) {
  uint32_t i = level >= CpuLevel::kAvx2 ? UnpackOneAvx2(in, scale, n, out) : 0;
  for (; i < n; ++i) out[i] = FloatToHalf(static_cast<float>(in[i]) * scale);
}

}  // namespace pie::cpu
