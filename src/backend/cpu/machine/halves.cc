#include "backend/cpu/machine/halves.h"

#include "backend/cpu/machine/simd.h"

namespace pie::cpu {
namespace {

void StoreScalar(const float* in, uint32_t n, uint16_t* out, size_t stride) {
  for (uint32_t i = 0; i < n; ++i) out[i * stride] = FloatToHalf(in[i]);
}

PIE_AVX2 void StoreF16c(const float* in, uint32_t n, uint16_t* out, size_t stride) {
  uint32_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i eight = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
    if (stride == 1) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), eight);
      continue;
    }
    uint16_t each[8];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(each), eight);
    PIE_UNROLL
    for (int j = 0; j < 8; ++j) out[(i + j) * stride] = each[j];
  }
  StoreScalar(in + i, n - i, out + i * stride, stride);
}

}  // namespace

void StoreHalves(CpuLevel level, const float* in, uint32_t n, uint16_t* out, size_t stride) {
  level >= CpuLevel::kAvx2 ? StoreF16c(in, n, out, stride) : StoreScalar(in, n, out, stride);
}

}  // namespace pie::cpu
