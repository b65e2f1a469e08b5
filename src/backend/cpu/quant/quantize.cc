#include "backend/cpu/quant/quantize.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <ranges>
#include <span>

#include "backend/cpu/quant/quantize_kernels.h"
#include "base/result.h"

namespace pie::cpu {
namespace {

using quantize::Magnitude;
using quantize::RowOut;
using quantize::Scale;
using quantize::ScaleFor;
using quantize::Sum16;
using quantize::UnitFor;

// For each level: finds the largest magnitude of every block.
void MaximaScalar(const float* x, uint32_t blocks, float* maxima) {
  for (uint32_t b = 0; b < blocks; ++b, x += kQuantBlock) {
    uint32_t max = 0;
    for (uint32_t i = 0; i < kQuantBlock; ++i) max = std::max(max, Magnitude(x[i]));
    maxima[b] = std::bit_cast<float>(max);
  }
}

PIE_AVX2 void MaximaAvx2(const float* x, uint32_t blocks, float* maxima) {
  const __m256i magnitude = _mm256_set1_epi32(quantize::kMagnitude);
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

// Inserts a number into `out`, which is sorted largest first, if it is among the largest. The first
// among equals stays.
inline void Insert(std::span<Outlier> out, uint32_t column, float value) {
  size_t at = out.size();
  while (at > 0 && Magnitude(out[at - 1].value) < Magnitude(value)) --at;
  if (at == out.size()) return;
  std::shift_right(out.begin() + static_cast<ptrdiff_t>(at), out.end(), 1);
  out[at] = {column, value};
}

// For each level: finds the largest numbers of the row. If there are fewer than outliers.size(),
// the rest is zero.
void FindScalar(const float* x, const RowOut& out) {
  std::ranges::fill(out.outliers, Outlier{0, 0});
  for (uint32_t i = 0; i < out.blocks * kQuantBlock; ++i) Insert(out.outliers, i, x[i]);
}

PIE_AVX2 void FindAvx2(const float* x, const RowOut& out) {
  std::ranges::fill(out.outliers, Outlier{0, 0});
  for (uint32_t b = 0; b < out.blocks; ++b) {
    // Skips a block whose numbers are all too small.
    const uint32_t least = Magnitude(out.outliers.back().value);
    if (Magnitude(out.scales[b]) <= least) continue;
    const __m256i below = _mm256_set1_epi32(static_cast<int>(least));
    for (uint32_t i = b * kQuantBlock; i < (b + 1) * kQuantBlock; i += 8) {
      const __m256i bits = _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(x + i)),
                                            _mm256_set1_epi32(quantize::kMagnitude));
      auto large = static_cast<uint32_t>(
          _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpgt_epi32(bits, below))));
      for (; large != 0; large &= large - 1) {
        const uint32_t column = i + static_cast<uint32_t>(std::countr_zero(large));
        Insert(out.outliers, column, x[column]);
      }
    }
  }
}

// For each level: computes the bytes and turns maxima into scales.
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

PIE_AVX2 void BytesAvx2(const float* x, const RowOut& out) {
  // The two packs work within halves of a register; this permutation restores the order.
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

// Stores scale × sum of each block as multiples of a unit.
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

}  // namespace

void QuantizedRows::Resize(uint32_t new_rows, uint32_t new_columns) {
  static std::atomic<uint64_t> last_id = 0;
  PIE_CHECK(new_columns % kQuantBlock == 0);
  id = last_id.fetch_add(1, std::memory_order_relaxed) + 1;
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
  const size_t all_outliers = size_t{rows} * outliers_per_row();
  if (outliers.size() < all_outliers) outliers.resize(all_outliers);
}

void QuantizeRow(CpuLevel level, float* x, QuantizedRows& out, uint32_t row) {
  const size_t first = static_cast<size_t>(row) * out.blocks();
  const std::span outliers(out.outliers.data() + size_t{row} * out.outliers_per_row(),
                           out.outliers_per_row());
  const RowOut to{out.blocks(),
                  out.values.data() + first * kQuantBlock,
                  out.scales.data() + first,
                  out.sums.data() + first,
                  out.first_sums.data() + first,
                  out.whole_sums.data() + size_t{row} * out.whole_stride(),
                  &out.sum_units[row],
                  outliers};
  // Prefetches the next row's bytes, which usually follow.
  if (row + 1 < out.rows) PrefetchForWrite(to.values + out.columns, out.columns);
  if (level >= CpuLevel::kAvx512) return quantize::RowAvx512(x, to);
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
  // Restores in reverse order: unused entries come last and name column 0, which must be restored
  // last.
  for (const Outlier& outlier : std::views::reverse(outliers)) x[outlier.column] = outlier.value;
}

void QuantizeRows(CpuLevel level, float* x, size_t stride, uint32_t rows, uint32_t columns,
                  QuantizedRows& out) {
  out.Resize(rows, columns);
  for (uint32_t row = 0; row < rows; ++row) QuantizeRow(level, x + row * stride, out, row);
}

}  // namespace pie::cpu
