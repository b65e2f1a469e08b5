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

PIE_AVX512 inline __m512i BlockMax512(const float* x) {
  const __m512i magnitude = _mm512_set1_epi32(kMagnitude);
  const __m512i low = _mm512_loadu_si512(x);
  const __m512i high = _mm512_loadu_si512(x + 16);
  return _mm512_max_epi32(_mm512_and_si512(low, magnitude), _mm512_and_si512(high, magnitude));
}

// Four blocks at a time, so that they share the way from sixteen lanes to one.
PIE_AVX512 void MaximaAvx512(const float* x, uint32_t blocks, float* maxima) {
  for (uint32_t b = 0; b < blocks; b += 4) {
    const uint32_t count = std::min(blocks - b, 4U);
    __m512i max[4];
    for (uint32_t i = 0; i < 4; ++i) {
      max[i] = BlockMax512(x + size_t{b + std::min(i, count - 1)} * kQuantBlock);
    }
    const __m512i first = _mm512_max_epi32(_mm512_unpacklo_epi32(max[0], max[1]),
                                           _mm512_unpackhi_epi32(max[0], max[1]));
    const __m512i last = _mm512_max_epi32(_mm512_unpacklo_epi32(max[2], max[3]),
                                          _mm512_unpackhi_epi32(max[2], max[3]));
    __m512i all = _mm512_max_epi32(_mm512_unpacklo_epi64(first, last),  // each quarter has all four
                                   _mm512_unpackhi_epi64(first, last));
    all = _mm512_max_epi32(all, _mm512_shuffle_i32x4(all, all, 0x4E));
    all = _mm512_max_epi32(all, _mm512_shuffle_i32x4(all, all, 0xB1));
    _mm_mask_storeu_epi32(maxima + b, static_cast<uint8_t>(LaneMask(count)),
                          _mm512_castsi512_si128(all));
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

// So many different maxima are as large as this or larger, and so at least as many numbers.
PIE_AVX512 uint32_t LeastOfLargest(const float* maxima, uint32_t blocks, size_t count) {
  auto least = static_cast<int32_t>(kMagnitude);
  for (size_t i = 0; i < count; ++i) {
    const __m512i before = _mm512_set1_epi32(least);
    __m512i next = _mm512_setzero_si512();
    for (uint32_t b = 0; b < blocks; b += 16) {
      const uint16_t mask = LaneMask(std::min(blocks - b, 16U));
      const __m512i m = _mm512_maskz_loadu_epi32(mask, maxima + b);
      // The first is the largest whatever it is.
      const uint16_t less = i == 0 ? mask : _mm512_cmplt_epi32_mask(m, before);
      next = _mm512_mask_max_epi32(next, less, next, m);
    }
    least = _mm512_reduce_max_epi32(next);
  }
  return static_cast<uint32_t>(least);
}

// Blocks that have none of the largest numbers are not looked at. The largest so far stay in a
// register, in order: a magnitude above, and below it what is larger for a smaller column. A new
// one goes to its place without a branch, which nobody could foresee.
PIE_AVX512 void FindAvx512(const float* x, const RowOut& out) {
  static_assert(kMaxOutliers <= 8);
  const __m512i before = _mm512_setr_epi64(7, 0, 1, 2, 3, 4, 5, 6);
  const __m512i all_ones = _mm512_set1_epi64(-1);
  __m512i largest = _mm512_setzero_si512();
  const uint32_t least = LeastOfLargest(out.scales, out.blocks, out.outliers.size());
  const __m512i below = _mm512_set1_epi32(static_cast<int>(least) - 1);
  const __m512i magnitude = _mm512_set1_epi32(kMagnitude);
  for (uint32_t b = 0; b < out.blocks; ++b) {
    if (Magnitude(out.scales[b]) < least) continue;
    uint32_t large = 0;
    PIE_UNROLL
    for (uint32_t half = 0; half < 2; ++half) {
      const __m512i bits = _mm512_loadu_si512(x + b * kQuantBlock + 16 * half);
      large |= uint32_t{_mm512_cmpgt_epi32_mask(_mm512_and_si512(bits, magnitude), below)}
               << (16 * half);
    }
    for (; large != 0; large &= large - 1) {
      const uint32_t column = b * kQuantBlock + static_cast<uint32_t>(std::countr_zero(large));
      const __m512i key =
          _mm512_set1_epi64(static_cast<int64_t>(uint64_t{Magnitude(x[column])} << 32 | ~column));
      const __m512i left = _mm512_mask_permutexvar_epi64(all_ones, 0xFE, before, largest);
      largest = _mm512_max_epu64(largest, _mm512_min_epu64(left, key));
    }
  }
  alignas(64) uint64_t keys[8];
  _mm512_store_si512(keys, largest);
  for (size_t i = 0; i < out.outliers.size(); ++i) {
    const auto column = ~static_cast<uint32_t>(keys[i]);
    out.outliers[i] = keys[i] >> 32 == 0 ? Outlier{0, 0} : Outlier{column, x[column]};
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

// 32 bytes → the block's sums.
PIE_AVX2 inline void StoreSums(__m256i bytes, const RowOut& out, uint32_t b) {
  // Made unsigned, so that one instruction adds eight of them.
  const __m256i t =
      _mm256_sad_epu8(_mm256_xor_si256(bytes, _mm256_set1_epi8(-128)), _mm256_setzero_si256());
  const __m256i both = _mm256_add_epi64(t, _mm256_shuffle_epi32(t, 0x4E));
  const int32_t first_sum = _mm_cvtsi128_si32(_mm256_castsi256_si128(both)) - 16 * 128;
  const int32_t last_sum = _mm_cvtsi128_si32(_mm256_extracti128_si256(both, 1)) - 16 * 128;
  out.first_sums[b] = first_sum;
  out.sums[b] = first_sum + last_sum;
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
    StoreSums(bytes, out, b);
    out.scales[b] = s.scale;
  }
}

PIE_AVX512 void BytesAvx512(const float* x, const RowOut& out) {
  const __m512 steps = _mm512_set1_ps(127);
  for (uint32_t first = 0; first < out.blocks; first += 16) {
    const uint32_t count = std::min(out.blocks - first, 16U);
    const uint16_t mask = LaneMask(count);
    const __m512 max = _mm512_maskz_loadu_ps(mask, out.scales + first);
    const uint16_t some = mask & ~_mm512_cmp_ps_mask(max, _mm512_set1_ps(kTiny), _CMP_LT_OQ);
    alignas(64) float inverse[16];
    _mm512_store_ps(inverse, _mm512_maskz_div_ps(some, steps, max));
    _mm512_mask_storeu_ps(out.scales + first, mask, _mm512_maskz_div_ps(some, max, steps));
    for (uint32_t i = 0; i < count; ++i, x += kQuantBlock) {
      const __m512 factor = _mm512_set1_ps(inverse[i]);
      const __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x), factor));
      const __m512i q1 = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(x + 16), factor));
      const __m256i bytes = _mm256_inserti128_si256(
          _mm256_castsi128_si256(_mm512_cvtsepi32_epi8(q0)), _mm512_cvtsepi32_epi8(q1), 1);
      const uint32_t b = first + i;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.values + b * kQuantBlock), bytes);
      StoreSums(bytes, out, b);
    }
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

PIE_AVX512 inline __m512 RealSums(const RowOut& out, uint32_t first, uint16_t mask) {
  return _mm512_mul_ps(_mm512_maskz_loadu_ps(mask, out.scales + first),
                       _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(mask, out.sums + first)));
}

PIE_AVX512 void WholeSumsAvx512(const RowOut& out) {
  const __m512i magnitude = _mm512_set1_epi32(kMagnitude);
  __m512i max = _mm512_setzero_si512();
  for (uint32_t first = 0; first < out.blocks; first += 16) {
    const uint16_t mask = LaneMask(std::min(out.blocks - first, 16U));
    const __m512i bits = _mm512_castps_si512(RealSums(out, first, mask));
    max = _mm512_max_epi32(max, _mm512_and_si512(bits, magnitude));
  }
  const Scale unit = UnitFor(std::bit_cast<float>(_mm512_reduce_max_epi32(max)), out.blocks);
  *out.sum_unit = unit.scale;
  for (uint32_t first = 0; first < out.blocks; first += 16) {
    const uint16_t mask = unit.inverse == 0 ? 0 : LaneMask(std::min(out.blocks - first, 16U));
    const __m512 multiples =
        _mm512_mul_ps(RealSums(out, first, mask), _mm512_set1_ps(unit.inverse));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.whole_sums + first),
                        _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(multiples)));
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
  const bool avx512 = level >= CpuLevel::kAvx512;
  const bool avx2 = level >= CpuLevel::kAvx2;
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
  const auto maxima = avx512 ? MaximaAvx512 : avx2 ? MaximaAvx2 : MaximaScalar;
  maxima(x, out.blocks(), to.scales);
  if (!outliers.empty()) {
    (avx512 ? FindAvx512 : avx2 ? FindAvx2 : FindScalar)(x, to);
    for (const Outlier& outlier : outliers) x[outlier.column] = 0;
    for (const Outlier& outlier : outliers) {
      const uint32_t block = outlier.column / kQuantBlock;
      maxima(x + size_t{block} * kQuantBlock, 1, to.scales + block);
    }
  }
  (avx512 ? BytesAvx512 : avx2 ? BytesAvx2 : BytesScalar)(x, to);
  (avx512 ? WholeSumsAvx512 : WholeSums)(to);
  // Backwards: what stands for none comes last, and is of column 0.
  for (const Outlier& outlier : std::views::reverse(outliers)) x[outlier.column] = outlier.value;
}

void QuantizeRows(CpuLevel level, float* x, size_t stride, uint32_t rows, uint32_t columns,
                  QuantizedRows& out) {
  out.Resize(rows, columns);
  for (uint32_t row = 0; row < rows; ++row) QuantizeRow(level, x + row * stride, out, row);
}

}  // namespace pie::cpu
