// Shared by the vector kernels: target attributes, conversion from float to half, exp, tanh and
// sums of lanes.
//
// The project is compiled for baseline x86-64. A function that uses more declares it by one of the
// macros below and is called only at a CpuLevel that includes it. Helpers carry the same macro as
// their callers; otherwise they are not inlined. Lambdas do not inherit the attribute, so none are
// used there.
#pragma once

// g++ 12 warns about its own header, which leaves some values undefined on purpose.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop

#include <bit>
#include <cstdint>
#include <cstring>

#define PIE_AVX2 __attribute__((target("avx2,fma,f16c")))
#define PIE_AVX512 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl")))
#define PIE_AVX512_VNNI \
  __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))

#define PIE_AVX512_BF16                                                     \
  __attribute__((                                                           \
      target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni," \
             "avx512bf16")))

#define PIE_AMX                                                             \
  __attribute__((                                                           \
      target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni," \
             "avx512bf16,amx-tile,amx-bf16")))

// Put PIE_UNROLL before a loop of constant length over an array of registers: it is unrolled even
// at -O2, because otherwise the array would live in memory.
#ifdef __clang__
#define PIE_UNROLL _Pragma("unroll")
#else
#define PIE_UNROLL _Pragma("GCC unroll 16")
#endif

namespace pie::cpu {

// Converts to IEEE binary16, rounded to nearest even, as the hardware does.
constexpr uint16_t FloatToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) {  // NaN: quiet, upper bits kept
    return static_cast<uint16_t>(sign | 0x7E00U | (magnitude >> 13 & 0x3FFU));
  }
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);  // rounds to inf
  if (magnitude < 0x38800000U) {  // subnormal: adding 0.5 leaves units of 2^-24 in the low bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5F;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3F000000U));
  }
  const uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13 & 1U);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000U) >> 13);
}

// exp: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2]; relative error below 2e-7. Arguments are
// clamped to where the result is a normal float, so exp(-inf) is about 1e-38, not 0. NaN gives NaN.
inline constexpr float kExpMin = -87.3F;
inline constexpr float kExpMax = 88.3F;
inline constexpr float kLog2E = 1.44269504F;
inline constexpr float kLn2High = 0.693359375F;
inline constexpr float kLn2Low = -2.12194440e-4F;
inline constexpr float kExpTerms[] = {1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F,
                                      4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F};

PIE_AVX512 inline __m512 Exp512(__m512 x) {
  // In this order of operands, min and max keep a NaN in x.
  x = _mm512_max_ps(_mm512_set1_ps(kExpMin), _mm512_min_ps(_mm512_set1_ps(kExpMax), x));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(kLog2E)),
                                        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kLn2High), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(kLn2Low), r);
  __m512 p = _mm512_set1_ps(kExpTerms[0]);
  PIE_UNROLL
  for (int i = 1; i < 6; ++i) p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(kExpTerms[i]));
  p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1)));
  return _mm512_scalef_ps(p, n);
}

PIE_AVX2 inline __m256 Exp256(__m256 x) {
  x = _mm256_max_ps(_mm256_set1_ps(kExpMin), _mm256_min_ps(_mm256_set1_ps(kExpMax), x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(kLog2E)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(kLn2High), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(kLn2Low), r);
  __m256 p = _mm256_set1_ps(kExpTerms[0]);
  PIE_UNROLL
  for (int i = 1; i < 6; ++i) p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(kExpTerms[i]));
  p = _mm256_fmadd_ps(p, _mm256_mul_ps(r, r), _mm256_add_ps(r, _mm256_set1_ps(1)));
  const __m256i exponent =
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(p, _mm256_castsi256_ps(exponent));
}

// tanh by way of exp. The absolute error is below 2e-7.
PIE_AVX512 inline __m512 Tanh512(__m512 x) {
  const __m512 e = Exp512(_mm512_add_ps(x, x));
  const __m512 one = _mm512_set1_ps(1);
  return _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2), _mm512_add_ps(e, one)));
}

PIE_AVX2 inline __m256 Tanh256(__m256 x) {
  const __m256 e = Exp256(_mm256_add_ps(x, x));
  const __m256 one = _mm256_set1_ps(1);
  return _mm256_sub_ps(one, _mm256_div_ps(_mm256_set1_ps(2), _mm256_add_ps(e, one)));
}

PIE_AVX2 inline float Sum256(__m256 v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

PIE_AVX2 inline float Max256(__m256 v) {
  __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_max_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
}

PIE_AVX512 inline __m256 Upper256(__m512 v) {
  return _mm512_extractf32x8_ps(v, 1);
}
PIE_AVX512 inline float Sum512(__m512 v) {
  return Sum256(_mm256_add_ps(_mm512_castps512_ps256(v), Upper256(v)));
}
PIE_AVX512 inline float Max512(__m512 v) {
  return Max256(_mm256_max_ps(_mm512_castps512_ps256(v), Upper256(v)));
}

// Load halves and convert them to float.
PIE_AVX512 inline __m512 LoadHalf512(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
PIE_AVX2 inline __m256 LoadHalf256(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// The bits of a float that form a bfloat16.
inline constexpr auto kUpperHalf = static_cast<int32_t>(0xFFFF0000U);

// Convert between float and bfloat16, rounding to nearest even. Subnormal floats count as zero.
PIE_AVX512_BF16 inline __m256i FloatsToBf16(__m512 v) {
  return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v));
}
PIE_AVX512_BF16 inline __m512 Bf16ToFloats(__m256i v) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
}

// Returns a mask of the lowest `count` lanes (at most 16).
inline uint16_t LaneMask(size_t count) {
  return static_cast<uint16_t>((1U << count) - 1);
}

// Stores the lanes of the mask. Uses a plain store where possible, because a later load cannot be
// forwarded from a masked store and has to wait for the cache.
PIE_AVX512 inline void Store512(float* to, uint16_t mask, __m512 v) {
  mask == 0xFFFF ? _mm512_storeu_ps(to, v) : _mm512_mask_storeu_ps(to, mask, v);
}
PIE_AVX512 inline void Store512(int32_t* to, uint16_t mask, __m512i v) {
  mask == 0xFFFF ? _mm512_storeu_si512(to, v) : _mm512_mask_storeu_epi32(to, mask, v);
}

// Stores the first `lanes` of eight lanes.
PIE_AVX2 inline void StoreLanes256(float* to, __m256 v, uint32_t lanes) {
  if (lanes >= 8) return _mm256_storeu_ps(to, v);
  float all[8];
  _mm256_storeu_ps(all, v);
  std::memcpy(to, all, lanes * sizeof(float));
}

}  // namespace pie::cpu
