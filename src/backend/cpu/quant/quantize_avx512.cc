#include <algorithm>
#include <bit>
#include <ranges>

#include "backend/cpu/quant/quantize_kernels.h"

namespace pie::cpu::quantize {
namespace {

// AVX-512 computes the same bytes in another way: intermediate results stay in registers or are
// stored as whole vectors, because a vector load from several smaller stores would wait until they
// have reached the cache.
struct Scratch {
  AlignedVector<float> maxima;         // [blocks, padded to whole vectors]
  AlignedVector<float> inverses;       // same size: inverses of scales
  AlignedVector<float> sums;           // same size: scale × Σ q
  AlignedVector<uint32_t> magnitudes;  // [columns and one vector]: numbers that may be outliers …
  AlignedVector<uint32_t> columns;     // … and their columns

  void Grow(uint32_t blocks);
};

void Scratch::Grow(uint32_t blocks) {
  const size_t whole = (size_t{blocks} + 15) / 16 * 16;
  if (maxima.size() >= whole) return;
  maxima.resize(whole);
  inverses.resize(whole);
  sums.resize(whole);
  magnitudes.resize(whole * kQuantBlock + 16);
  columns.resize(whole * kQuantBlock + 16);
}

// Pointers to the arrays of Scratch, so that functions do not look up the thread-local object
// again.
struct Arrays {
  float* maxima;
  float* inverses;
  float* sums;
  uint32_t* magnitudes;
  uint32_t* columns;
};

PIE_AVX512 inline __m512i Magnitudes(const float* x) {
  return _mm512_and_si512(_mm512_loadu_si512(x), _mm512_set1_epi32(kMagnitude));
}

// Returns the largest magnitudes of a block, lane by lane.
PIE_AVX512 inline __m512i BlockMax512(const float* x) {
  return _mm512_max_epi32(Magnitudes(x), Magnitudes(x + 16));
}

// Reduces four blocks at a time, which share the steps from sixteen lanes to one, and stores
// sixteen maxima at a time.
PIE_AVX512 void Maxima512(const float* x, uint32_t blocks, float* maxima) {
  for (uint32_t first = 0; first < blocks; first += 16) {
    __m512i sixteen = _mm512_setzero_si512();
    for (uint32_t b = first; b < std::min(blocks, first + 16); b += 4) {
      __m512i max[4];
      for (uint32_t i = 0; i < 4; ++i) {
        max[i] = BlockMax512(x + size_t{std::min(b + i, blocks - 1)} * kQuantBlock);
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

// Returns a bound that at least `count` numbers reach: of sixteen maxima of different blocks, the
// least one that fewer than `count` others exceed.
PIE_AVX512 int32_t LeastOfLargest(const float* maxima, uint32_t blocks, size_t count) {
  __m512i max = _mm512_load_si512(maxima);
  for (uint32_t b = 16; b < blocks; b += 16) {
    max = _mm512_max_epi32(max, _mm512_load_si512(maxima + b));
  }
  const __m512i one = _mm512_set1_epi32(1);
  __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  __m512i larger = _mm512_setzero_si512();
  PIE_UNROLL
  for (int i = 1; i < 16; ++i) {
    lane = _mm512_add_epi32(lane, one);  // wraps around: only the lowest four bits count
    const __m512i other = _mm512_permutexvar_epi32(lane, max);
    larger = _mm512_mask_add_epi32(larger, _mm512_cmpgt_epi32_mask(other, max), larger, one);
  }
  const auto limit = _mm512_set1_epi32(static_cast<int>(count));
  return _mm512_mask_reduce_min_epi32(_mm512_cmplt_epi32_mask(larger, limit), max);
}

// Stores the magnitudes and columns of the numbers greater than `below` and returns their count.
// Skips blocks without any. Avoids unpredictable branches.
PIE_AVX512 uint32_t Collect(const float* x, uint32_t blocks, int32_t below, const Arrays& to) {
  const __m512i limit = _mm512_set1_epi32(below);
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  uint32_t count = 0;
  for (uint32_t first = 0; first < blocks; first += 16) {
    uint32_t found = _mm512_cmpgt_epi32_mask(_mm512_load_si512(to.maxima + first), limit) &
                     LaneMask(std::min(blocks - first, 16U));
    for (; found != 0; found &= found - 1) {
      const uint32_t at = (first + static_cast<uint32_t>(std::countr_zero(found))) * kQuantBlock;
      PIE_UNROLL
      for (uint32_t i = 0; i < kQuantBlock; i += 16) {
        const __m512i magnitudes = Magnitudes(x + at + i);
        const __m512i columns =
            _mm512_add_epi32(lanes, _mm512_set1_epi32(static_cast<int>(at + i)));
        const uint16_t large = _mm512_cmpgt_epi32_mask(magnitudes, limit);
        _mm512_storeu_si512(to.magnitudes + count, _mm512_maskz_compress_epi32(large, magnitudes));
        _mm512_storeu_si512(to.columns + count, _mm512_maskz_compress_epi32(large, columns));
        count += static_cast<uint32_t>(std::popcount(large));
      }
    }
  }
  return count;
}

// The largest numbers so far stay sorted in one register, as 64-bit keys: the magnitude in the
// upper half, and in the lower half a value that is larger for smaller columns.
PIE_AVX512 void Find512(const float* x, const RowOut& out, const Arrays& scratch) {
  static_assert(kMaxOutliers <= 8);
  const int32_t least = LeastOfLargest(scratch.maxima, out.blocks, out.outliers.size());
  const uint32_t count = Collect(x, out.blocks, std::max(least - 1, 0), scratch);
  const __m512i before = _mm512_setr_epi64(7, 0, 1, 2, 3, 4, 5, 6);
  const __m512i all_ones = _mm512_set1_epi64(-1);
  __m512i largest = _mm512_setzero_si512();
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t number = uint64_t{scratch.magnitudes[i]} << 32 | ~scratch.columns[i];
    const __m512i key = _mm512_set1_epi64(static_cast<int64_t>(number));
    const __m512i left = _mm512_mask_permutexvar_epi64(all_ones, 0xFE, before, largest);
    largest = _mm512_max_epu64(largest, _mm512_min_epu64(left, key));
  }
  alignas(64) uint64_t keys[8];
  _mm512_store_si512(keys, largest);
  for (size_t i = 0; i < out.outliers.size(); ++i) {
    const auto column = ~static_cast<uint32_t>(keys[i]);
    out.outliers[i] = keys[i] >> 32 == 0 ? Outlier{0, 0} : Outlier{column, x[column]};
  }
}

// Quantises two blocks, or one, to bytes. Returns the sums of every four bytes; a quarter of the
// vector belongs to half a block.
PIE_AVX512 inline __m512i TwoBlocks(const float* x, const float* inverses, bool two, int8_t* to) {
  const uint16_t second = two ? 0xFFFF : 0;
  const __m512 factor0 = _mm512_set1_ps(inverses[0]);
  const __m512 factor1 = _mm512_set1_ps(inverses[1]);
  const __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), factor0));
  const __m512i q1 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), factor0));
  const __m512i q2 =
      _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(second, x + 32), factor1));
  const __m512i q3 =
      _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_maskz_loadu_ps(second, x + 48), factor1));
  // The two packs work within quarters of a register; this permutation restores the order.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = _mm512_permutexvar_epi32(
      order, _mm512_packs_epi16(_mm512_packs_epi32(q0, q1), _mm512_packs_epi32(q2, q3)));
  if (two) {
    _mm512_storeu_si512(to, bytes);
  } else {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(bytes));
  }
  const __m512i by_twos = _mm512_maddubs_epi16(_mm512_set1_epi8(1), bytes);
  return _mm512_madd_epi16(by_twos, _mm512_set1_epi16(1));
}

// Quantises up to eight blocks (`count`) to bytes. Returns the sums of half blocks: lane 4h + i has
// half h of the two blocks from 2i on.
PIE_AVX512 inline __m512i EightBlocks(const float* x, const float* inverses, uint32_t count,
                                      int8_t* to) {
  __m512i sums[4];
  PIE_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const size_t at = size_t{2 * i} * kQuantBlock;
    sums[i] = 2 * i < count ? TwoBlocks(x + at, inverses + 2 * i, 2 * i + 1 < count, to + at)
                            : _mm512_setzero_si512();
  }
  const __m512i low = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0], sums[1]),
                                       _mm512_unpackhi_epi32(sums[0], sums[1]));
  const __m512i high = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2], sums[3]),
                                        _mm512_unpackhi_epi32(sums[2], sums[3]));
  return _mm512_add_epi32(_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high));
}

// Quantises up to sixteen blocks from `first` on. Returns scale × Σ q of each.
PIE_AVX512 __m512 Bytes512(const float* x, const RowOut& out, const Arrays& scratch,
                           uint32_t first) {
  const uint32_t count = std::min(out.blocks - first, 16U);
  const uint16_t mask = LaneMask(count);
  const __m512 max = _mm512_load_ps(scratch.maxima + first);
  const __m512 steps = _mm512_set1_ps(127);
  const uint16_t some = mask & ~_mm512_cmp_ps_mask(max, _mm512_set1_ps(kTiny), _CMP_LT_OQ);
  const __m512 scales = _mm512_maskz_div_ps(some, max, steps);
  float* const inverses = scratch.inverses + first;
  _mm512_store_ps(inverses, _mm512_maskz_div_ps(some, steps, max));

  x += size_t{first} * kQuantBlock;
  int8_t* const to = out.values + size_t{first} * kQuantBlock;
  const __m512i halves0 = EightBlocks(x, inverses, std::min(count, 8U), to);
  const __m512i halves1 = count <= 8 ? _mm512_setzero_si512()
                                     : EightBlocks(x + size_t{8} * kQuantBlock, inverses + 8,
                                                   count - 8, to + size_t{8} * kQuantBlock);
  const __m512i of_first =
      _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 16, 24, 17, 25, 18, 26, 19, 27);
  const __m512i of_second = _mm512_add_epi32(of_first, _mm512_set1_epi32(4));
  const __m512i first_sums = _mm512_permutex2var_epi32(halves0, of_first, halves1);
  const __m512i sums =
      _mm512_add_epi32(first_sums, _mm512_permutex2var_epi32(halves0, of_second, halves1));
  Store512(out.scales + first, mask, scales);
  Store512(out.sums + first, mask, sums);
  Store512(out.first_sums + first, mask, first_sums);
  return _mm512_mul_ps(scales, _mm512_cvtepi32_ps(sums));
}

PIE_AVX512 __attribute__((noinline)) void Row512(float* x, const RowOut& out,
                                                 const Arrays& scratch) {
  Maxima512(x, out.blocks, scratch.maxima);
  if (!out.outliers.empty()) Find512(x, out, scratch);
  for (const Outlier& outlier : out.outliers) x[outlier.column] = 0;
  for (const Outlier& outlier : out.outliers) {
    const uint32_t block = outlier.column / kQuantBlock;
    const __m512i max = BlockMax512(x + size_t{block} * kQuantBlock);
    scratch.maxima[block] = std::bit_cast<float>(_mm512_reduce_max_epi32(max));
  }

  __m512i max = _mm512_setzero_si512();
  for (uint32_t first = 0; first < out.blocks; first += 16) {
    const __m512 sums = Bytes512(x, out, scratch, first);
    _mm512_store_ps(scratch.sums + first, sums);
    max = _mm512_max_epi32(
        max, _mm512_and_si512(_mm512_castps_si512(sums), _mm512_set1_epi32(kMagnitude)));
  }
  const Scale unit = UnitFor(std::bit_cast<float>(_mm512_reduce_max_epi32(max)), out.blocks);
  *out.sum_unit = unit.scale;
  const uint16_t some = unit.inverse == 0 ? 0 : 0xFFFF;
  for (uint32_t first = 0; first < out.blocks; first += 16) {
    const __m512 sums = _mm512_maskz_load_ps(some, scratch.sums + first);
    const __m512i multiples = _mm512_cvtps_epi32(_mm512_mul_ps(sums, _mm512_set1_ps(unit.inverse)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.whole_sums + first),
                        _mm512_cvtepi32_epi16(multiples));
  }
  // Restores in reverse order: unused entries come last and name column 0, which must be restored
  // last.
  for (const Outlier& outlier : std::views::reverse(out.outliers)) {
    x[outlier.column] = outlier.value;
  }
}

}  // namespace

void RowAvx512(float* x, const RowOut& out) {
  thread_local Scratch scratch;
  scratch.Grow(out.blocks);
  Row512(x, out,
         {scratch.maxima.data(), scratch.inverses.data(), scratch.sums.data(),
          scratch.magnitudes.data(), scratch.columns.data()});
}

}  // namespace pie::cpu::quantize
