#include "backend/cpu/attention/rope.h"

#include <cmath>

#include "backend/cpu/machine/simd.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

// Each function rotates one head. `from` is the first pair to rotate.
void HalvesScalar(const float* cos, const float* sin, float* x, uint32_t half, uint32_t from = 0) {
  for (uint32_t i = from; i < half; ++i) {
    const float a = x[i];
    const float b = x[i + half];
    x[i] = a * cos[i] - b * sin[i];
    x[i + half] = b * cos[i] + a * sin[i];
  }
}

void NeighboursScalar(const float* cos, const float* sin, float* x, uint32_t half,
                      uint32_t from = 0) {
  for (uint32_t i = from; i < half; ++i) {
    const float a = x[2 * i];
    const float b = x[2 * i + 1];
    x[2 * i] = a * cos[i] - b * sin[i];
    x[2 * i + 1] = b * cos[i] + a * sin[i];
  }
}

PIE_AVX2 void HalvesAvx2(const float* cos, const float* sin, float* x, uint32_t half) {
  uint32_t i = 0;
  for (; i + 8 <= half; i += 8) {
    const __m256 a = _mm256_loadu_ps(x + i);
    const __m256 b = _mm256_loadu_ps(x + half + i);
    const __m256 c = _mm256_loadu_ps(cos + i);
    const __m256 s = _mm256_loadu_ps(sin + i);
    _mm256_storeu_ps(x + i, _mm256_fmsub_ps(a, c, _mm256_mul_ps(b, s)));
    _mm256_storeu_ps(x + half + i, _mm256_fmadd_ps(b, c, _mm256_mul_ps(a, s)));
  }
  HalvesScalar(cos, sin, x, half, i);
}

PIE_AVX2 void NeighboursAvx2(const float* cos, const float* sin, float* x, uint32_t half) {
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  uint32_t i = 0;
  for (; i + 4 <= half; i += 4) {  // four pairs
    const __m256 v = _mm256_loadu_ps(x + 2 * i);
    const __m256 c = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(cos + i)), twice);
    const __m256 s = _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(sin + i)), twice);
    const __m256 swapped = _mm256_permute_ps(v, 0xB1);
    // fmaddsub subtracts in the even lanes and adds in the odd ones.
    _mm256_storeu_ps(x + 2 * i, _mm256_fmaddsub_ps(v, c, _mm256_mul_ps(swapped, s)));
  }
  NeighboursScalar(cos, sin, x, half, i);
}

}  // namespace

RopeTable::RopeTable(Pairing pairing, uint32_t dims, double base, std::span<const float> factors)
    : pairing_(pairing), dims_(dims), frequencies_(RopeFrequencies(base, dims, factors)) {}

void RopeTable::Angles(uint32_t position, std::span<float> cos, std::span<float> sin) const {
  PIE_CHECK(cos.size() == frequencies_.size() && sin.size() == frequencies_.size());
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = position * frequencies_[i];
    cos[i] = static_cast<float>(std::cos(angle));
    sin[i] = static_cast<float>(std::sin(angle));
  }
}

void RopeTable::Apply(CpuLevel level, const float* cos, const float* sin, float* x, uint32_t heads,
                      uint32_t head_size) const {
  const bool halves = pairing_ == Pairing::kHalves;
  for (uint32_t head = 0; head < heads; ++head, x += head_size) {
    if (level >= CpuLevel::kAvx2) {
      (halves ? HalvesAvx2 : NeighboursAvx2)(cos, sin, x, dims_ / 2);
    } else {
      halves ? HalvesScalar(cos, sin, x, dims_ / 2) : NeighboursScalar(cos, sin, x, dims_ / 2);
    }
  }
}

}  // namespace pie::cpu
