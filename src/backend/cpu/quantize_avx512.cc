#include <algorithm>

#include "backend/cpu/quantize_kernels.h"

namespace pie::cpu::quantize {
namespace {

// AVX-512 goes another way to the same bytes: what one step leaves for the next stays in registers
// or goes through whole vectors. A vector that is loaded from several smaller stores waits until
// these, and all before them, have reached the cache.
struct Scratch {
  AlignedVector<float> maxima;   // [blocks up to whole vectors]
  AlignedVector<float> sums;     // the same: scale × Σ q
  AlignedVector<uint32_t> keep;  // the same: bits of columns that are no outliers
};

PIE_AVX512 inline __m512i Magnitudes(uint16_t mask, const float* x) {
  return _mm512_and_si512(_mm512_maskz_loadu_epi32(mask, x), _mm512_set1_epi32(kMagnitude));
}

// The largest magnitudes of a block, lane by lane, of what is kept.
PIE_AVX512 inline __m512i BlockMax512(const float* x, uint32_t keep) {
  return _mm512_max_epi32(Magnitudes(static_cast<uint16_t>(keep), x),
                          Magnitudes(static_cast<uint16_t>(keep >> 16), x + 16));
}

// Four blocks at a time, so that they share the way from sixteen lanes to one. Sixteen at a time
// leave.
PIE_AVX512 void Maxima512(const float* x, uint32_t blocks, float* maxima) {
  for (uint32_t first = 0; first < blocks; first += 16) {
    __m512i sixteen = _mm512_setzero_si512();
    for (uint32_t b = first; b < std::min(blocks, first + 16); b += 4) {
      __m512i max[4];
      for (uint32_t i = 0; i < 4; ++i) {
        max[i] = BlockMax512(x + size_t{std::min(b + i, blocks - 1)} * kQuantBlock, ~0U);
      }
      const __m512i low = _mm512_max_epi32(_mm512_unpacklo_epi32(max[0], max[1]),
                                           _mm512_unpackhi_epi32(max[0], max[1]));
      const __m512i high = _mm512_max_epi32(_mm512_unpacklo_epi32(max[2], max[3]),
                                            _mm512_unpackhi_epi32(max[2], max[3]));
      __m512i four = _mm512_max_epi32(_mm512_unpacklo_epi64(low, high),  // in each quarter
                                      _mm512_unpackhi_epi64(low, high));
      four = _mm512_max_epi32(four, _mm512_shuffle_i32x4(four, four, 0x4E));
      four = _mm512_max_epi32(four, _mm512_shuffle_i32x4(four, four, 0xB1));
      const auto there = static_cast<uint16_t>(LaneMask(std::min(blocks - b, 4U)) << (b - first));
      sixteen = _mm512_mask_mov_epi32(sixteen, there, four);
    }
    _mm512_store_si512(maxima + first, sixteen);
  }
}

// So many different maxima are as large as this or larger, and so at least as many numbers.
PIE_AVX512 int32_t LeastOfLargest(const float* maxima, uint32_t blocks, size_t count) {
  auto least = static_cast<int32_t>(kMagnitude);
  for (size_t i = 0; i < count; ++i) {
    const __m512i before = _mm512_set1_epi32(least);
    __m512i next = _mm512_setzero_si512();
    for (uint32_t b = 0; b < blocks; b += 16) {
      const __m512i m = _mm512_load_si512(maxima + b);
      // The first is the largest whatever it is.
      const uint16_t less = i == 0 ? uint16_t{0xFFFF} : _mm512_cmplt_epi32_mask(m, before);
      next = _mm512_mask_max_epi32(next, less, next, m);
    }
    least = _mm512_reduce_max_epi32(next);
  }
  return least;
}

// Blocks that have none of the largest numbers are not looked at. The largest so far stay in a
// register, in order: a magnitude above, and below it what is larger for a smaller column. A new
// one goes to its place without a branch, which nobody could foresee.
PIE_AVX512 void Find512(const float* x, const RowOut& out, const float* maxima) {
  static_assert(kMaxOutliers <= 8);
  const __m512i before = _mm512_setr_epi64(7, 0, 1, 2, 3, 4, 5, 6);
  const __m512i all_ones = _mm512_set1_epi64(-1);
  __m512i largest = _mm512_setzero_si512();
  const __m512i below =
      _mm512_set1_epi32(LeastOfLargest(maxima, out.blocks, out.outliers.size()) - 1);
  for (uint32_t first = 0; first < out.blocks; first += 16) {
    uint32_t found = _mm512_cmpgt_epi32_mask(_mm512_load_si512(maxima + first), below) &
                     LaneMask(std::min(out.blocks - first, 16U));
    for (; found != 0; found &= found - 1) {
      const uint32_t at = (first + static_cast<uint32_t>(std::countr_zero(found))) * kQuantBlock;
      uint32_t large = _mm512_cmpgt_epi32_mask(Magnitudes(0xFFFF, x + at), below);
      large |= uint32_t{_mm512_cmpgt_epi32_mask(Magnitudes(0xFFFF, x + at + 16), below)} << 16;
      for (; large != 0; large &= large - 1) {
        const uint32_t column = at + static_cast<uint32_t>(std::countr_zero(large));
        const __m512i key =
            _mm512_set1_epi64(static_cast<int64_t>(uint64_t{Magnitude(x[column])} << 32 | ~column));
        const __m512i left = _mm512_mask_permutexvar_epi64(all_ones, 0xFE, before, largest);
        largest = _mm512_max_epu64(largest, _mm512_min_epu64(left, key));
      }
    }
  }
  alignas(64) uint64_t keys[8];
  _mm512_store_si512(keys, largest);
  for (size_t i = 0; i < out.outliers.size(); ++i) {
    const auto column = ~static_cast<uint32_t>(keys[i]);
    out.outliers[i] = keys[i] >> 32 == 0 ? Outlier{0, 0} : Outlier{column, x[column]};
  }
}

// Up to sixteen blocks from `first` on. Gives scale × Σ q of each.
PIE_AVX512 __m512 Bytes512(const float* x, const RowOut& out, const Scratch& scratch,
                           uint32_t first) {
  const uint32_t count = std::min(out.blocks - first, 16U);
  const uint16_t mask = LaneMask(count);
  __m512i maxima = _mm512_load_si512(scratch.maxima.data() + first);
  for (const Outlier& outlier : out.outliers) {
    const uint32_t b = outlier.column / kQuantBlock;
    if (b / 16 != first / 16) continue;
    const __m512i max = BlockMax512(x + size_t{b} * kQuantBlock, scratch.keep[b]);
    maxima = _mm512_mask_set1_epi32(maxima, static_cast<uint16_t>(1U << (b % 16)),
                                    _mm512_reduce_max_epi32(max));
  }
  const __m512 max = _mm512_castsi512_ps(maxima);
  const __m512 steps = _mm512_set1_ps(127);
  const uint16_t some = mask & ~_mm512_cmp_ps_mask(max, _mm512_set1_ps(kTiny), _CMP_LT_OQ);
  const __m512 scales = _mm512_maskz_div_ps(some, max, steps);
  alignas(64) float inverse[16];
  _mm512_store_ps(inverse, _mm512_maskz_div_ps(some, steps, max));

  __m512i sums = _mm512_setzero_si512();
  __m512i first_sums = _mm512_setzero_si512();
  const float* from = x + size_t{first} * kQuantBlock;
  int8_t* to = out.values + size_t{first} * kQuantBlock;
  for (uint32_t i = 0; i < count; ++i, from += kQuantBlock, to += kQuantBlock) {
    const uint32_t keep = scratch.keep[first + i];
    const __m512 factor = _mm512_set1_ps(inverse[i]);
    const __m512 low = _mm512_maskz_loadu_ps(static_cast<uint16_t>(keep), from);
    const __m512 high = _mm512_maskz_loadu_ps(static_cast<uint16_t>(keep >> 16), from + 16);
    const __m128i q0 = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(low, factor)));
    const __m128i q1 = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(high, factor)));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), q0);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 16), q1);
    const auto lane = static_cast<uint16_t>(1U << i);
    const int32_t first_sum = Sum16(q0);
    first_sums = _mm512_mask_set1_epi32(first_sums, lane, first_sum);
    sums = _mm512_mask_set1_epi32(sums, lane, first_sum + Sum16(q1));
  }
  _mm512_mask_storeu_ps(out.scales + first, mask, scales);
  _mm512_mask_storeu_epi32(out.sums + first, mask, sums);
  _mm512_mask_storeu_epi32(out.first_sums + first, mask, first_sums);
  return _mm512_mul_ps(scales, _mm512_cvtepi32_ps(sums));
}

}  // namespace

PIE_AVX512 void RowAvx512(const float* x, const RowOut& out) {
  thread_local Scratch scratch;
  const uint32_t whole = (out.blocks + 15) / 16 * 16;
  if (scratch.maxima.size() < whole) {
    scratch.maxima.resize(whole);
    scratch.sums.resize(whole);
    scratch.keep.resize(whole);
  }
  Maxima512(x, out.blocks, scratch.maxima.data());
  std::fill_n(scratch.keep.data(), whole, ~0U);
  if (!out.outliers.empty()) Find512(x, out, scratch.maxima.data());
  for (const Outlier& outlier : out.outliers) {
    scratch.keep[outlier.column / kQuantBlock] &= ~(1U << (outlier.column % kQuantBlock));
  }

  __m512i max = _mm512_setzero_si512();
  for (uint32_t first = 0; first < out.blocks; first += 16) {
    const __m512 sums = Bytes512(x, out, scratch, first);
    _mm512_store_ps(scratch.sums.data() + first, sums);
    max = _mm512_max_epi32(
        max, _mm512_and_si512(_mm512_castps_si512(sums), _mm512_set1_epi32(kMagnitude)));
  }
  const Scale unit = UnitFor(std::bit_cast<float>(_mm512_reduce_max_epi32(max)), out.blocks);
  *out.sum_unit = unit.scale;
  const uint16_t some = unit.inverse == 0 ? 0 : 0xFFFF;
  for (uint32_t first = 0; first < whole; first += 16) {
    const __m512 sums = _mm512_maskz_load_ps(some, scratch.sums.data() + first);
    const __m512i multiples = _mm512_cvtps_epi32(_mm512_mul_ps(sums, _mm512_set1_ps(unit.inverse)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.whole_sums + first),
                        _mm512_cvtepi32_epi16(multiples));
  }
}

}  // namespace pie::cpu::quantize
