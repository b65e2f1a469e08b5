#include <algorithm>
#include <cstring>

#include "backend/cpu/adapters/low_rank_kernels.h"
#include "backend/cpu/machine/simd.h"

namespace pie::cpu {
namespace {

// Eight ranks of up to three rows fill 24 registers.
template <uint32_t kRows>
PIE_AVX512 void ShrinkRows(const PackedLowRank& w, const LowRankTile<const float>& x,
                           const LowRankTile<float>& h) {
  const uint32_t whole = w.in / kLowRankLanes * kLowRankLanes;
  const uint16_t rest = LaneMask(w.in - whole);
  const uint16_t* a = w.a.data();
  for (uint32_t group = 0; group < w.rank; group += kRankGroup) {
    __m512 sums[kRows][kRankGroup];
    PIE_UNROLL
    for (uint32_t i = 0; i < kRows; ++i) {
      PIE_UNROLL
      for (uint32_t j = 0; j < kRankGroup; ++j) sums[i][j] = _mm512_setzero_ps();
    }
    for (uint32_t first = 0; first < w.in; first += kLowRankLanes) {
      const uint16_t mask = first < whole ? 0xFFFF : rest;
      __m512 values[kRows];
      PIE_UNROLL
      for (uint32_t i = 0; i < kRows; ++i) {
        values[i] = _mm512_maskz_loadu_ps(mask, x.row[i] + first);
      }
      PIE_UNROLL
      for (uint32_t j = 0; j < kRankGroup; ++j) {
        const __m512 weights = LoadHalf512(a + j * kLowRankLanes);
        PIE_UNROLL
        for (uint32_t i = 0; i < kRows; ++i) {
          sums[i][j] = _mm512_fmadd_ps(weights, values[i], sums[i][j]);
        }
      }
      a += size_t{kRankGroup} * kLowRankLanes;
    }
    PIE_UNROLL
    for (uint32_t i = 0; i < kRows; ++i) {
      PIE_UNROLL
      for (uint32_t j = 0; j < kRankGroup; ++j) {
        h.row[i][group + j] = Sum512(sums[i][j]) * w.scale;
      }
    }
  }
}

template <uint32_t kRows>
PIE_AVX512 void ExpandRows(const PackedLowRank& w, const LowRankTile<const float>& h,
                           uint32_t first, uint32_t count, const LowRankTile<float>& y) {
  const uint16_t* b = w.b.data() + size_t{first} * w.rank;
  for (uint32_t at = 0; at < count; at += kLowRankLanes, b += size_t{w.rank} * kLowRankLanes) {
    __m512 sums[kRows];
    PIE_UNROLL
    for (uint32_t i = 0; i < kRows; ++i) sums[i] = _mm512_setzero_ps();
    for (uint32_t j = 0; j < w.rank; ++j) {
      const __m512 weights = LoadHalf512(b + j * kLowRankLanes);
      PIE_UNROLL
      for (uint32_t i = 0; i < kRows; ++i) {
        sums[i] = _mm512_fmadd_ps(weights, _mm512_set1_ps(h.row[i][j]), sums[i]);
      }
    }
    const uint16_t mask = LaneMask(std::min(kLowRankLanes, count - at));
    PIE_UNROLL
    for (uint32_t i = 0; i < kRows; ++i) {
      float* const to = y.row[i] + at;
      Store512(to, mask, _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sums[i]));
    }
  }
}

}  // namespace

void ShrinkAvx512(const PackedLowRank& w, const LowRankTile<const float>& x,
                  const LowRankTile<float>& h) {
  switch (x.rows) {
    case 1:
      return ShrinkRows<1>(w, x, h);
    case 2:
      return ShrinkRows<2>(w, x, h);
    case 3:
      return ShrinkRows<3>(w, x, h);
    default:
      return;
  }
}

void ExpandAvx512(const PackedLowRank& w, const LowRankTile<const float>& h, uint32_t first,
                  uint32_t count, const LowRankTile<float>& y) {
  switch (h.rows) {
    case 1:
      return ExpandRows<1>(w, h, first, count, y);
    case 2:
      return ExpandRows<2>(w, h, first, count, y);
    case 3:
      return ExpandRows<3>(w, h, first, count, y);
    default:
      return;
  }
}

PIE_AVX512 void AddSignedAvx512(const uint64_t* signs, float z, uint32_t count, float* y) {
  const __m512 minus = _mm512_set1_ps(-z);
  const __m512 plus = _mm512_set1_ps(z);
  for (uint32_t at = 0; at < count; at += kLowRankLanes) {
    const uint16_t mask = LaneMask(std::min(kLowRankLanes, count - at));
    const auto bits = static_cast<uint16_t>(signs[at / 64] >> (at % 64));
    const __m512 added =
        _mm512_add_ps(_mm512_maskz_loadu_ps(mask, y + at), _mm512_mask_blend_ps(bits, minus, plus));
    Store512(y + at, mask, added);
  }
}

}  // namespace pie::cpu
