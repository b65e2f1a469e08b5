#include "backend/cpu/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <ranges>
#include <span>

#include "backend/cpu/panel_format.h"
#include "backend/cpu/simd.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

// Magnitudes are compared as bits: they order like floats, and a NaN is the largest.
constexpr uint32_t kMagnitude = 0x7FFFFFFFU;
uint32_t Magnitude(float x) {
  return std::bit_cast<uint32_t>(x) & kMagnitude;
}

// What is below this is zero: 127 / max would leave the range of float.
constexpr float kTiny = 1e-30F;

struct RowOut {
  uint32_t blocks;
  int8_t* values;
  float* scales;  // first the largest magnitude of each block, then its scale
  int32_t* sums;
  int32_t* first_sums;
  int16_t* whole_sums;
  float* sum_unit;
  std::span<Outlier> outliers;
};

// Steps of `count` to the largest number.
struct Scale {
  float scale;
  float inverse;
};
Scale ScaleFor(float max, float count) {
  if (max < kTiny) return {0, 0};
  return {max / count, count / max};
}

// A row with a sum that is no number has a unit that is none, and multiples of 0.
Scale UnitFor(float max, uint32_t blocks) {
  if (!(max < INFINITY)) return {std::numeric_limits<float>::quiet_NaN(), 0};
  return ScaleFor(max, static_cast<float>(WholeLimit(blocks)));
}

// Each level: the largest magnitude of every block; those of one.
void MaximaScalar(const float* x, uint32_t blocks, float* maxima) {
  for (uint32_t b = 0; b < blocks; ++b, x += kQuantBlock) {
    uint32_t max = 0;
    for (uint32_t i = 0; i < kQuantBlock; ++i) max = std::max(max, Magnitude(x[i]));
    maxima[b] = std::bit_cast<float>(max);
  }
}

PIE_AVX2 void MaximaAvx2(const float* x, uint32_t blocks, float* maxima) {
  const __m256i magnitude = _mm256_set1_epi32(kMagnitude);
  for (uint32_t b = 0; b < blocks; ++b, x += kQuantBlock) {
    __m256i max = _mm256_setzero_si256();
    PIE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + 8 * i));
      max = _mm256_max_epi32(max, _mm256_and_si256(bits, magnitude));
    }
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
    maxima[b] = std::bit_cast<float>(_mm_cvtsi128_si32(m));
  }
}

// Puts a number into `out`, largest first, if it is among the largest. Of equals the first stays.
inline void Insert(std::span<Outlier> out, uint32_t column, float value) {
  size_t at = out.size();
  while (at > 0 && Magnitude(out[at - 1].value) < Magnitude(value)) --at;
  if (at == out.size()) return;
  std::shift_right(out.begin() + static_cast<ptrdiff_t>(at), out.end(), 1);
  out[at] = {column, value};
}

// Each level: finds the largest numbers of the row. Where there are not so many, the rest of
// `outliers` is zero.
void FindScalar(const float* x, const RowOut& out) {
  std::ranges::fill(out.outliers, Outlier{0, 0});
  for (uint32_t i = 0; i < out.blocks * kQuantBlock; ++i) Insert(out.outliers, i, x[i]);
}

PIE_AVX2 void FindAvx2(const float* x, const RowOut& out) {
  std::ranges::fill(out.outliers, Outlier{0, 0});
  for (uint32_t b = 0; b < out.blocks; ++b) {
    // Nothing of this block can come in.
    const uint32_t least = Magnitude(out.outliers.back().value);
    if (Magnitude(out.scales[b]) <= least) continue;
    const __m256i below = _mm256_set1_epi32(static_cast<int>(least));
    for (uint32_t i = b * kQuantBlock; i < (b + 1) * kQuantBlock; i += 8) {
      const __m256i bits = _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i)),
                                            _mm256_set1_epi32(kMagnitude));
      auto large = static_cast<uint32_t>(
          _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(bits, below))));
      for (; large != 0; large &= large - 1) {
        const uint32_t column = i + static_cast<uint32_t>(std::countr_zero(large));
        Insert(out.outliers, column, x[column]);
      }
    }
  }
}

// Each level: bytes, and maxima → scales.
void BytesScalar(const float* x, const RowOut& out) {
  for (uint32_t b = 0; b < out.blocks; ++b, x += kQuantBlock) {
    const Scale s = ScaleFor(out.scales[b], 127);
    int32_t sum = 0;
    for (uint32_t i = 0; i < kQuantBlock; ++i) {
      if (i == 16) out.first_sums[b] = sum;
      const auto q = static_cast<int8_t>(std::clamp(std::lrint(x[i] * s.inverse), -128L, 127L));
      out.values[b * kQuantBlock + i] = q;
      sum += q;
    }
    out.sums[b] = sum;
    out.scales[b] = s.scale;
  }
}

// Of sixteen bytes, made unsigned so that one instruction adds eight of them.
PIE_AVX2 inline int32_t Sum16(__m128i bytes) {
  const __m128i t = _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8(-128)), _mm_setzero_si128());
  return _mm_cvtsi128_si32(_mm_add_epi64(t, _mm_unpackhi_epi64(t, t))) - 16 * 128;
}

PIE_AVX2 void BytesAvx2(const float* x, const RowOut& out) {
  // The two packs work within halves and leave groups of four in this order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (uint32_t b = 0; b < out.blocks; ++b, x += kQuantBlock) {
    const Scale s = ScaleFor(out.scales[b], 127);
    __m256i q[4];
    for (int i = 0; i < 4; ++i) {
      const __m256 v = _mm256_loadu_ps(x + 8 * i);
      q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v, _mm256_set1_ps(s.inverse)));
    }
    const __m256i bytes = _mm256_permutevar8x32_epi32(
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.values + b * kQuantBlock), bytes);
    out.first_sums[b] = Sum16(_mm256_castsi256_si128(bytes));
    out.sums[b] = out.first_sums[b] + Sum16(_mm256_extracti128_si256(bytes, 1));
    out.scales[b] = s.scale;
  }
}

// Scales × sums as multiples of a unit.
void WholeSums(const RowOut& out) {
  uint32_t max = 0;
  std::fill_n(out.whole_sums, (out.blocks + 15) / 16 * 16, int16_t{0});
  for (uint32_t b = 0; b < out.blocks; ++b) {
    max = std::max(max, Magnitude(out.scales[b] * static_cast<float>(out.sums[b])));
  }
  const Scale unit = UnitFor(std::bit_cast<float>(max), out.blocks);
  *out.sum_unit = unit.scale;
  for (uint32_t b = 0; b < out.blocks && unit.inverse != 0; ++b) {
    const float sum = out.scales[b] * static_cast<float>(out.sums[b]);
    out.whole_sums[b] = static_cast<int16_t>(std::lrint(sum * unit.inverse));
  }
}

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

PIE_AVX512 void QuantizeRow512(const float* x, const RowOut& out) {
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

}  // namespace

void QuantizedRows::Resize(uint32_t new_rows, uint32_t new_columns) {
  PIE_CHECK(new_columns % kQuantBlock == 0);
  rows = new_rows;
  columns = new_columns;
  const size_t count = static_cast<size_t>(rows) * columns;
  if (values.size() < count) values.resize(count);
  const size_t all_blocks = count / kQuantBlock;
  if (scales.size() < all_blocks) {
    scales.resize(all_blocks);
    sums.resize(all_blocks);
    first_sums.resize(all_blocks);
  }
  const size_t all_whole = size_t{rows} * whole_stride();
  if (whole_sums.size() < all_whole) whole_sums.resize(all_whole);
  if (sum_units.size() < rows) sum_units.resize(rows);
  const size_t all_outliers = size_t{rows} * outliers_a_row();
  if (outliers.size() < all_outliers) outliers.resize(all_outliers);
}

void QuantizeRow(CpuLevel level, float* x, QuantizedRows& out, uint32_t row) {
  const size_t first = static_cast<size_t>(row) * out.blocks();
  const std::span outliers(out.outliers.data() + size_t{row} * out.outliers_a_row(),
                           out.outliers_a_row());
  const RowOut to{out.blocks(),
                  out.values.data() + first * kQuantBlock,
                  out.scales.data() + first,
                  out.sums.data() + first,
                  out.first_sums.data() + first,
                  out.whole_sums.data() + size_t{row} * out.whole_stride(),
                  &out.sum_units[row],
                  outliers};
  if (level >= CpuLevel::kAvx512) return QuantizeRow512(x, to);
  const bool avx2 = level >= CpuLevel::kAvx2;
  const auto maxima = avx2 ? MaximaAvx2 : MaximaScalar;
  maxima(x, out.blocks(), to.scales);
  if (!outliers.empty()) {
    (avx2 ? FindAvx2 : FindScalar)(x, to);
    for (const Outlier& outlier : outliers) x[outlier.column] = 0;
    for (const Outlier& outlier : outliers) {
      const uint32_t block = outlier.column / kQuantBlock;
      maxima(x + size_t{block} * kQuantBlock, 1, to.scales + block);
    }
  }
  (avx2 ? BytesAvx2 : BytesScalar)(x, to);
  WholeSums(to);
  // Backwards: what stands for none comes last, and is of column 0.
  for (const Outlier& outlier : std::views::reverse(outliers)) x[outlier.column] = outlier.value;
}

void QuantizeRows(CpuLevel level, float* x, size_t stride, uint32_t rows, uint32_t columns,
                  QuantizedRows& out) {
  out.Resize(rows, columns);
  for (uint32_t row = 0; row < rows; ++row) QuantizeRow(level, x + row * stride, out, row);
}

}  // namespace pie::cpu
