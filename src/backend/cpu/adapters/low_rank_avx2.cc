#include <algorithm>
#include <cstring>

#include "backend/cpu/adapters/low_rank_kernels.h"
#include "backend/cpu/machine/simd.h"

namespace pie::cpu {

PIE_AVX2 void ShrinkAvx2(const PackedLowRank& w, const float* x, float* h) {
  const uint32_t whole = w.in / kLowRankLanes * kLowRankLanes;
  float rest[kLowRankLanes] = {};
  std::memcpy(rest, x + whole, (w.in - whole) * sizeof(float));
  const uint16_t* a = w.a.data();
  for (uint32_t group = 0; group < w.rank; group += kRankGroup) {
    __m256 sums[kRankGroup];
    PIE_UNROLL
    for (uint32_t j = 0; j < kRankGroup; ++j) sums[j] = _mm256_setzero_ps();
    for (uint32_t first = 0; first < w.in; first += kLowRankLanes) {
      const float* const from = first < whole ? x + first : rest;
      for (uint32_t half = 0; half < kLowRankLanes; half += 8) {
        const __m256 values = _mm256_loadu_ps(from + half);
        PIE_UNROLL
        for (uint32_t j = 0; j < kRankGroup; ++j) {
          sums[j] = _mm256_fmadd_ps(LoadHalf256(a + j * kLowRankLanes + half), values, sums[j]);
        }
      }
      a += size_t{kRankGroup} * kLowRankLanes;
    }
    PIE_UNROLL
    for (uint32_t j = 0; j < kRankGroup; ++j) h[group + j] = Sum256(sums[j]) * w.scale;
  }
}

PIE_AVX2 void ExpandAvx2(const PackedLowRank& w, const float* h, uint32_t first, uint32_t count,
                         float* y) {
  const uint16_t* b = w.b.data() + size_t{first} * w.rank;
  for (uint32_t at = 0; at < count; at += kLowRankLanes, b += size_t{w.rank} * kLowRankLanes) {
    __m256 low = _mm256_setzero_ps();
    __m256 high = _mm256_setzero_ps();
    for (uint32_t j = 0; j < w.rank; ++j) {
      const __m256 factor = _mm256_set1_ps(h[j]);
      low = _mm256_fmadd_ps(LoadHalf256(b + j * kLowRankLanes), factor, low);
      high = _mm256_fmadd_ps(LoadHalf256(b + j * kLowRankLanes + 8), factor, high);
    }
    float sums[kLowRankLanes];
    _mm256_storeu_ps(sums, low);
    _mm256_storeu_ps(sums + 8, high);
    const uint32_t lanes = std::min(kLowRankLanes, count - at);
    for (uint32_t i = 0; i < lanes; ++i) y[at + i] += sums[i];
  }
}

}  // namespace pie::cpu
