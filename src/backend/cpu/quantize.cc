#include "backend/cpu/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ranges>
#include <span>

#include "backend/cpu/simd.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

// Blocks below this are zero: 127 / max would leave the range of float.
constexpr float kTiny = 1e-30F;

struct RowOut {
  int8_t* values;
  float* scales;
  int32_t* sums;
  int32_t* first_sums;
  float* real_sums;
};

struct Scale {
  float scale;
  float inverse;
};

Scale ScaleFor(float max) {
  if (max < kTiny) return {0, 0};
  return {max / 127.0F, 127.0F / max};
}

void Finish(const RowOut& out, uint32_t block, float scale, int32_t first_sum, int32_t sum) {
  out.scales[block] = scale;
  out.sums[block] = sum;
  out.first_sums[block] = first_sum;
  out.real_sums[block] = scale * static_cast<float>(sum);
}

// The largest magnitude of a block, as bits: they order like floats, and a NaN is the largest.
uint32_t BlockMax(const float* x) {
  uint32_t max = 0;
  for (uint32_t i = 0; i < kQuantBlock; ++i) {
    max = std::max(max, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFFU);
  }
  return max;
}

PIE_AVX2 inline uint32_t BlockMaxAvx2(const float* x) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i max = _mm256_setzero_si256();
  PIE_UNROLL
  for (int i = 0; i < 4; ++i) {
    const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + 8 * i));
    max = _mm256_max_epi32(max, _mm256_and_si256(bits, magnitude));
  }
  __m128i m = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(m));
}

// Puts a number into `out`, largest first, if it is among the largest. Of equals the first stays.
inline void Insert(std::span<Outlier> out, uint32_t column, float value) {
  const auto magnitude = [](float x) { return std::bit_cast<uint32_t>(x) & 0x7FFFFFFFU; };
  size_t at = out.size();
  while (at > 0 && magnitude(out[at - 1].value) < magnitude(value)) --at;
  if (at == out.size()) return;
  std::shift_right(out.begin() + static_cast<ptrdiff_t>(at), out.end(), 1);
  out[at] = {column, value};
}

// Takes the largest numbers out of the row and leaves zeros in their places. Where there are not so
// many, the rest of `out` is zero.
void TakeOutliers(float* x, uint32_t blocks, std::span<Outlier> out) {
  std::ranges::fill(out, Outlier{0, 0});
  for (uint32_t i = 0; i < blocks * kQuantBlock; ++i) Insert(out, i, x[i]);
  for (const Outlier& outlier : out) x[outlier.column] = 0;
}

PIE_AVX2 void TakeOutliersAvx2(float* x, uint32_t blocks, std::span<Outlier> out) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  const uint32_t columns = blocks * kQuantBlock;
  // The least of eight columns' maxima: at least eight numbers are as large, so none of the
  // outliers is smaller.
  static_assert(kMaxOutliers <= 8);
  __m256i max[4] = {};
  for (uint32_t i = 0; i < columns; i += kQuantBlock) {
    PIE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i + 8 * j));
      max[j] = _mm256_max_epi32(max[j], _mm256_and_si256(bits, magnitude));
    }
  }
  const __m256i all =
      _mm256_max_epi32(_mm256_max_epi32(max[0], max[1]), _mm256_max_epi32(max[2], max[3]));
  __m128i m = _mm_min_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  m = _mm_min_epi32(m, _mm_shuffle_epi32(m, 0x4E));
  m = _mm_min_epi32(m, _mm_shuffle_epi32(m, 0xB1));
  const __m256i below = _mm256_set1_epi32(_mm_cvtsi128_si32(m) - 1);

  std::ranges::fill(out, Outlier{0, 0});
  for (uint32_t i = 0; i < columns; i += kQuantBlock) {
    uint32_t large = 0;
    PIE_UNROLL
    for (int j = 0; j < 4; ++j) {
      const __m256i bits = _mm256_castps_si256(_mm256_loadu_ps(x + i + 8 * j));
      const __m256i more = _mm256_cmpgt_epi32(_mm256_and_si256(bits, magnitude), below);
      large |= static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(more))) << (8 * j);
    }
    for (; large != 0; large &= large - 1) {
      const uint32_t column = i + static_cast<uint32_t>(std::countr_zero(large));
      Insert(out, column, x[column]);
    }
  }
  for (const Outlier& outlier : out) x[outlier.column] = 0;
}

void QuantizeScalar(const float* x, uint32_t blocks, const RowOut& out) {
  for (uint32_t b = 0; b < blocks; ++b, x += kQuantBlock) {
    const Scale s = ScaleFor(std::bit_cast<float>(BlockMax(x)));
    int32_t sum = 0;
    int32_t first_sum = 0;
    for (uint32_t i = 0; i < kQuantBlock; ++i) {
      if (i == 16) first_sum = sum;
      const auto q = static_cast<int8_t>(std::clamp(std::lrint(x[i] * s.inverse), -128L, 127L));
      out.values[b * kQuantBlock + i] = q;
      sum += q;
    }
    Finish(out, b, s.scale, first_sum, sum);
  }
}

PIE_AVX2 void QuantizeAvx2(const float* x, uint32_t blocks, const RowOut& out) {
  // The two packs work within halves and leave groups of four in this order.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (uint32_t b = 0; b < blocks; ++b, x += kQuantBlock) {
    const Scale s = ScaleFor(std::bit_cast<float>(BlockMaxAvx2(x)));
    __m256i q[4];
    for (int i = 0; i < 4; ++i) {
      const __m256 v = _mm256_loadu_ps(x + 8 * i);
      q[i] = _mm256_cvtps_epi32(_mm256_mul_ps(v, _mm256_set1_ps(s.inverse)));
    }
    const __m256i bytes = _mm256_permutevar8x32_epi32(
        _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])), order);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out.values + b * kQuantBlock), bytes);

    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
    const __m256i fours = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    // Each half of 16 numbers becomes the sum of its four lanes.
    __m256i t = _mm256_add_epi32(fours, _mm256_shuffle_epi32(fours, 0x4E));
    t = _mm256_add_epi32(t, _mm256_shuffle_epi32(t, 0xB1));
    const int32_t first_sum = _mm_cvtsi128_si32(_mm256_castsi256_si128(t));
    const int32_t last_sum = _mm_cvtsi128_si32(_mm256_extracti128_si256(t, 1));
    Finish(out, b, s.scale, first_sum, first_sum + last_sum);
  }
}

PIE_AVX512 void QuantizeAvx512(const float* x, uint32_t blocks, const RowOut& out) {
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  for (uint32_t b = 0; b < blocks; ++b, x += kQuantBlock) {
    const __m512 v0 = _mm512_loadu_ps(x);
    const __m512 v1 = _mm512_loadu_ps(x + 16);
    const __m512i max = _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(v0), magnitude),
                                         _mm512_and_si512(_mm512_castps_si512(v1), magnitude));
    const __m256i half =
        _mm256_max_epi32(_mm512_castsi512_si256(max), _mm512_extracti32x8_epi32(max, 1));
    __m128i m = _mm_max_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4E));
    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0xB1));
    const Scale s = ScaleFor(_mm_cvtss_f32(_mm_castsi128_ps(m)));

    const __m512 inverse = _mm512_set1_ps(s.inverse);
    const __m512i q0 = _mm512_cvtps_epi32(_mm512_mul_ps(v0, inverse));
    const __m512i q1 = _mm512_cvtps_epi32(_mm512_mul_ps(v1, inverse));
    const __m128i b0 = _mm512_cvtsepi32_epi8(q0);
    const __m128i b1 = _mm512_cvtsepi32_epi8(q1);
    int8_t* const values = out.values + b * kQuantBlock;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(values), b0);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(values + 16), b1);

    // Bytes made unsigned, so that one instruction adds eight of them.
    const __m128i flip = _mm_set1_epi8(-128);
    const __m128i zero = _mm_setzero_si128();
    const __m128i t0 = _mm_sad_epu8(_mm_xor_si128(b0, flip), zero);
    const __m128i t1 = _mm_sad_epu8(_mm_xor_si128(b1, flip), zero);
    const int32_t first_sum =
        _mm_cvtsi128_si32(_mm_add_epi64(t0, _mm_unpackhi_epi64(t0, t0))) - 16 * 128;
    const int32_t last_sum =
        _mm_cvtsi128_si32(_mm_add_epi64(t1, _mm_unpackhi_epi64(t1, t1))) - 16 * 128;
    Finish(out, b, s.scale, first_sum, first_sum + last_sum);
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
    real_sums.resize(all_blocks);
  }
  const size_t all_outliers = size_t{rows} * outliers_a_row();
  if (outliers.size() < all_outliers) outliers.resize(all_outliers);
}

void QuantizeRow(CpuLevel level, float* x, QuantizedRows& out, uint32_t row) {
  const size_t first = static_cast<size_t>(row) * out.blocks();
  const RowOut to{out.values.data() + first * kQuantBlock, out.scales.data() + first,
                  out.sums.data() + first, out.first_sums.data() + first,
                  out.real_sums.data() + first};
  const std::span outliers(out.outliers.data() + size_t{row} * out.outliers_a_row(),
                           out.outliers_a_row());
  const auto take = level >= CpuLevel::kAvx2 ? TakeOutliersAvx2 : TakeOutliers;
  if (!outliers.empty()) take(x, out.blocks(), outliers);
  if (level >= CpuLevel::kAvx512) {
    QuantizeAvx512(x, out.blocks(), to);
  } else if (level >= CpuLevel::kAvx2) {
    QuantizeAvx2(x, out.blocks(), to);
  } else {
    QuantizeScalar(x, out.blocks(), to);
  }
  // Backwards: what stands for none comes last, and is of column 0.
  for (const Outlier& outlier : std::views::reverse(outliers)) x[outlier.column] = outlier.value;
}

void QuantizeRows(CpuLevel level, float* x, size_t stride, uint32_t rows, uint32_t columns,
                  QuantizedRows& out) {
  out.Resize(rows, columns);
  for (uint32_t row = 0; row < rows; ++row) QuantizeRow(level, x + row * stride, out, row);
}

}  // namespace pie::cpu
