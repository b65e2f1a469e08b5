#include "backend/cpu/machine/simd.h"
#include "backend/cpu/matmul/matmul_kernels.h"

namespace pie::cpu::matmul {
namespace {

// A tile is kRows × 8 outputs: half a panel.
constexpr uint32_t kLanes = 8;

// Returns eight weights of column k + odd; k is even.
template <PanelFormat kFormat>
PIE_AVX2 inline __m256 LoadColumn(const std::byte* panel, size_t half, size_t k, size_t odd) {
  if constexpr (kFormat == PanelFormat::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(panel + (k + odd) * 64 + half * 32));
  }
  if constexpr (kFormat == PanelFormat::kF16) {
    return LoadHalf256(reinterpret_cast<const uint16_t*>(panel + (k + odd) * 32 + half * 16));
  }
  const __m256i pairs =
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(panel + k * 32 + half * 32));
  return _mm256_castsi256_ps(odd != 0 ? _mm256_and_si256(pairs, _mm256_set1_epi32(kUpperHalf))
                                      : _mm256_slli_epi32(pairs, 16));
}

// Even and odd columns are summed separately, so that additions do not wait for one another.
template <PanelFormat kFormat, int kRows>
PIE_AVX2 void RunFloatTile(const std::byte* panel, uint32_t half, const FloatRows& x, uint32_t row,
                           float* y, size_t y_stride, uint32_t lanes) {
  const float* const from = x.data + row * x.stride;
  __m256 sum[2][kRows];
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) sum[0][r] = sum[1][r] = _mm256_setzero_ps();
  uint32_t k = 0;
  for (; k + 2 <= x.columns; k += 2) {
    const __m256 w0 = LoadColumn<kFormat>(panel, half, k, 0);
    const __m256 w1 = LoadColumn<kFormat>(panel, half, k, 1);
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const float* const value = from + r * x.stride + k;
      sum[0][r] = _mm256_fmadd_ps(w0, _mm256_set1_ps(value[0]), sum[0][r]);
      sum[1][r] = _mm256_fmadd_ps(w1, _mm256_set1_ps(value[1]), sum[1][r]);
    }
  }
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (k < x.columns) {
      const __m256 w = LoadColumn<kFormat>(panel, half, k, 0);
      sum[0][r] = _mm256_fmadd_ps(w, _mm256_set1_ps(from[r * x.stride + k]), sum[0][r]);
    }
    StoreLanes256(y + r * y_stride, _mm256_add_ps(sum[0][r], sum[1][r]), lanes);
  }
}

template <PanelFormat kFormat>
void RunFloatRange(const PackedMatrix& w, const FloatRows& x, const Output& out) {
  for (uint32_t panel = out.range.panel_begin; panel < out.range.panel_end; ++panel) {
    for (uint32_t half = 0; half < 2 && half * kLanes < LanesOf(w, panel); ++half) {
      const uint32_t lanes = LanesOf(w, panel) - half * kLanes;
      for (uint32_t row = out.range.row_begin; row < out.range.row_end;) {
        const bool four = row + 3 < out.range.row_end;
        float* const y = out.At(row, panel) + half * kLanes;
        (four ? RunFloatTile<kFormat, 4> : RunFloatTile<kFormat, 1>)(w.Panel(panel), half, x, row,
                                                                     y, out.to.stride, lanes);
        row += four ? 4 : 1;
      }
    }
  }
}

}  // namespace

void FloatAvx2(const PackedMatrix& w, const FloatRows& x, const Output& out) {
  WithFloatFormat(w.format(), [&]<PanelFormat kFormat>() { RunFloatRange<kFormat>(w, x, out); });
}

}  // namespace pie::cpu::matmul
