#include "backend/cpu/layers/norm.h"

#include <cmath>

#include "backend/cpu/machine/simd.h"

namespace pie::cpu {
namespace {

// For each level: one function adds `delta` to a row, if it is not null, and returns the sum of its
// squares; another sets out to x × factor × weight.
float AddSquaresScalar(float* x, const float* delta, size_t n) {
  float sum = 0;
  for (size_t i = 0; i < n; ++i) {
    if (delta != nullptr) x[i] += delta[i];
    sum += x[i] * x[i];
  }
  return sum;
}

void ScaleScalar(const float* x, const float* weight, size_t n, float factor, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = x[i] * factor * weight[i];
}

PIE_AVX2 float AddSquaresAvx2(float* x, const float* delta, size_t n) {
  __m256 sum = _mm256_setzero_ps();
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 v = _mm256_loadu_ps(x + i);
    if (delta != nullptr) {
      v = _mm256_add_ps(v, _mm256_loadu_ps(delta + i));
      _mm256_storeu_ps(x + i, v);
    }
    sum = _mm256_fmadd_ps(v, v, sum);
  }
  return Sum256(sum) + AddSquaresScalar(x + i, delta == nullptr ? nullptr : delta + i, n - i);
}

PIE_AVX2 void ScaleAvx2(const float* x, const float* weight, size_t n, float factor, float* out) {
  const __m256 f = _mm256_set1_ps(factor);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), f);
    _mm256_storeu_ps(out + i, _mm256_mul_ps(v, _mm256_loadu_ps(weight + i)));
  }
  ScaleScalar(x + i, weight + i, n - i, factor, out + i);
}

PIE_AVX512 float AddSquaresAvx512(float* x, const float* delta, size_t n) {
  __m512 sum = _mm512_setzero_ps();
  for (size_t i = 0; i < n; i += 16) {
    const uint16_t mask = n - i >= 16 ? 0xFFFF : LaneMask(n - i);
    __m512 v = _mm512_maskz_loadu_ps(mask, x + i);
    if (delta != nullptr) {
      v = _mm512_add_ps(v, _mm512_maskz_loadu_ps(mask, delta + i));
      Store512(x + i, mask, v);
    }
    sum = _mm512_fmadd_ps(v, v, sum);
  }
  return Sum512(sum);
}

PIE_AVX512 void ScaleAvx512(const float* x, const float* weight, size_t n, float factor,
                            float* out) {
  const __m512 f = _mm512_set1_ps(factor);
  for (size_t i = 0; i < n; i += 16) {
    const uint16_t mask = n - i >= 16 ? 0xFFFF : LaneMask(n - i);
    const __m512 v = _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, x + i), f);
    Store512(out + i, mask, _mm512_mul_ps(v, _mm512_maskz_loadu_ps(mask, weight + i)));
  }
}

}  // namespace

void AddRmsNorm(CpuLevel level, float* x, const float* delta, const float* weight, size_t n,
                float epsilon, float* out) {
  const auto add_squares = level >= CpuLevel::kAvx512 ? AddSquaresAvx512
                           : level >= CpuLevel::kAvx2 ? AddSquaresAvx2
                                                      : AddSquaresScalar;
  const auto scale = level >= CpuLevel::kAvx512 ? ScaleAvx512
                     : level >= CpuLevel::kAvx2 ? ScaleAvx2
                                                : ScaleScalar;
  const float mean = add_squares(x, delta, n) / static_cast<float>(n);
  scale(x, weight, n, 1.0F / std::sqrt(mean + epsilon), out);
}

void RmsNorm(CpuLevel level, const float* x, const float* weight, size_t n, float epsilon,
             float* out) {
  // Without a delta, x is only read.
  AddRmsNorm(level, const_cast<float*>(x), nullptr, weight, n, epsilon, out);
}

}  // namespace pie::cpu
