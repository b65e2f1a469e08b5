#include "backend/cpu/layers/activation.h"

#include <algorithm>
#include <cmath>

#include "backend/cpu/machine/simd.h"

namespace pie::cpu {
namespace {

// All three have the form x × sigmoid(z(x)) × u(up), with
//   kSilu           z = x                                  u = up
//   kGeluTanh       z = √(8 / π) × (x + 0.044715 x³)       u = up
//   kClampedSwiglu  z = 1.702 x, x at most 7               u = up + 1, up within ±7
// because 1 + tanh(y) is 2 × sigmoid(2y).
constexpr float kGeluFactor = 1.5957691216F;
constexpr float kGeluCube = 0.044715F * kGeluFactor;
constexpr float kSwigluFactor = 1.702F;
constexpr float kSwigluLimit = 7;

template <Activation kActivation>
float GateOne(float x, float u) {
  float z = x;
  if constexpr (kActivation == Activation::kGeluTanh) z = x * (kGeluFactor + kGeluCube * x * x);
  if constexpr (kActivation == Activation::kClampedSwiglu) {
    // In this order of operands, NaN is kept.
    x = std::min(x, kSwigluLimit);
    z = x * kSwigluFactor;
    u = std::max(std::min(u, kSwigluLimit), -kSwigluLimit) + 1;
  }
  return x / (1 + std::exp(-z)) * u;
}

template <Activation kActivation>
void GateScalar(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = GateOne<kActivation>(gate[i], up[i]);
}

template <Activation kActivation>
PIE_AVX2 void GateAvx2(const float* gate, const float* up, size_t n, float* out) {
  const __m256 one = _mm256_set1_ps(1);
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m256 x = _mm256_loadu_ps(gate + i);
    __m256 u = _mm256_loadu_ps(up + i);
    __m256 z = x;
    if constexpr (kActivation == Activation::kGeluTanh) {
      z = _mm256_mul_ps(x, _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(kGeluCube),
                                           _mm256_set1_ps(kGeluFactor)));
    }
    if constexpr (kActivation == Activation::kClampedSwiglu) {
      const __m256 limit = _mm256_set1_ps(kSwigluLimit);
      x = _mm256_min_ps(limit, x);
      z = _mm256_mul_ps(x, _mm256_set1_ps(kSwigluFactor));
      const __m256 low = _mm256_sub_ps(_mm256_setzero_ps(), limit);
      u = _mm256_add_ps(_mm256_max_ps(low, _mm256_min_ps(limit, u)), one);
    }
    const __m256 e = Exp256(_mm256_sub_ps(_mm256_setzero_ps(), z));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(_mm256_div_ps(x, _mm256_add_ps(one, e)), u));
  }
  GateScalar<kActivation>(gate + i, up + i, n - i, out + i);
}

template <Activation kActivation>
PIE_AVX512 void GateAvx512(const float* gate, const float* up, size_t n, float* out) {
  const __m512 one = _mm512_set1_ps(1);
  for (size_t i = 0; i < n; i += 16) {
    const uint16_t mask = n - i >= 16 ? 0xFFFF : LaneMask(n - i);
    __m512 x = _mm512_maskz_loadu_ps(mask, gate + i);
    __m512 u = _mm512_maskz_loadu_ps(mask, up + i);
    __m512 z = x;
    if constexpr (kActivation == Activation::kGeluTanh) {
      z = _mm512_mul_ps(x, _mm512_fmadd_ps(_mm512_mul_ps(x, x), _mm512_set1_ps(kGeluCube),
                                           _mm512_set1_ps(kGeluFactor)));
    }
    if constexpr (kActivation == Activation::kClampedSwiglu) {
      const __m512 limit = _mm512_set1_ps(kSwigluLimit);
      x = _mm512_min_ps(limit, x);
      z = _mm512_mul_ps(x, _mm512_set1_ps(kSwigluFactor));
      const __m512 low = _mm512_sub_ps(_mm512_setzero_ps(), limit);
      u = _mm512_add_ps(_mm512_max_ps(low, _mm512_min_ps(limit, u)), one);
    }
    const __m512 e = Exp512(_mm512_sub_ps(_mm512_setzero_ps(), z));
    const __m512 result = _mm512_mul_ps(_mm512_div_ps(x, _mm512_add_ps(one, e)), u);
    Store512(out + i, mask, result);
  }
}

template <Activation kActivation>
void GateAt(CpuLevel level, const float* gate, const float* up, size_t n, float* out) {
  if (level >= CpuLevel::kAvx512) return GateAvx512<kActivation>(gate, up, n, out);
  if (level >= CpuLevel::kAvx2) return GateAvx2<kActivation>(gate, up, n, out);
  GateScalar<kActivation>(gate, up, n, out);
}

PIE_AVX2 size_t SoftCapAvx2(float cap, std::span<float> x) {
  size_t i = 0;
  for (; i + 8 <= x.size(); i += 8) {
    const __m256 v = _mm256_div_ps(_mm256_loadu_ps(&x[i]), _mm256_set1_ps(cap));
    _mm256_storeu_ps(&x[i], _mm256_mul_ps(Tanh256(v), _mm256_set1_ps(cap)));
  }
  return i;
}

}  // namespace

void Gate(CpuLevel level, Activation activation, const float* gate, const float* up, size_t n,
          float* out) {
  switch (activation) {
    case Activation::kSilu:
      return GateAt<Activation::kSilu>(level, gate, up, n, out);
    case Activation::kGeluTanh:
      return GateAt<Activation::kGeluTanh>(level, gate, up, n, out);
    case Activation::kClampedSwiglu:
      return GateAt<Activation::kClampedSwiglu>(level, gate, up, n, out);
  }
}

void SoftCap(CpuLevel level, float cap, std::span<float> x) {
  const size_t done = level >= CpuLevel::kAvx2 ? SoftCapAvx2(cap, x) : 0;
  for (float& value : x.subspan(done)) value = cap * std::tanh(value / cap);
}

}  // namespace pie::cpu
