#include "backend/cpu/activation.h"

#include <cmath>

#include "backend/cpu/simd.h"

namespace pie::cpu {
namespace {

void SiluGateScalar(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
}

PIE_AVX2 void SiluGateAvx2(const float* gate, const float* up, size_t n, float* out) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 x = _mm256_loadu_ps(gate + i);
    const __m256 e = Exp256(_mm256_sub_ps(_mm256_setzero_ps(), x));
    const __m256 silu = _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1), e));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(silu, _mm256_loadu_ps(up + i)));
  }
  SiluGateScalar(gate + i, up + i, n - i, out + i);
}

PIE_AVX512 void SiluGateAvx512(const float* gate, const float* up, size_t n, float* out) {
  for (size_t i = 0; i < n; i += 16) {
    const uint16_t mask = n - i >= 16 ? 0xFFFF : LaneMask(n - i);
    const __m512 x = _mm512_maskz_loadu_ps(mask, gate + i);
    const __m512 e = Exp512(_mm512_sub_ps(_mm512_setzero_ps(), x));
    const __m512 silu = _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1), e));
    _mm512_mask_storeu_ps(out + i, mask, _mm512_mul_ps(silu, _mm512_maskz_loadu_ps(mask, up + i)));
  }
}

}  // namespace

void SiluGate(CpuLevel level, const float* gate, const float* up, size_t n, float* out) {
  if (level >= CpuLevel::kAvx512) return SiluGateAvx512(gate, up, n, out);
  if (level >= CpuLevel::kAvx2) return SiluGateAvx2(gate, up, n, out);
  SiluGateScalar(gate, up, n, out);
}

}  // namespace pie::cpu
