#include "backend/cpu/machine/simd.h"
#include "backend/cpu/matmul/matmul_kernels.h"

namespace pie::cpu::matmul {
namespace {

// Returns sixteen weights of column k + odd; k is even.
template <PanelFormat kFormat>
PIE_AVX512 inline __m512 LoadColumn(const std::byte* panel, size_t k, size_t odd) {
  if constexpr (kFormat == PanelFormat::kF32) return _mm512_loadu_ps(panel + (k + odd) * 64);
  if constexpr (kFormat == PanelFormat::kF16) {
    return LoadHalf512(reinterpret_cast<const uint16_t*>(panel + (k + odd) * 32));
  }
  const __m512i pairs = _mm512_loadu_si512(panel + k * 32);
  return _mm512_castsi512_ps(odd != 0 ? _mm512_and_si512(pairs, _mm512_set1_epi32(kUpperHalf))
                                      : _mm512_slli_epi32(pairs, 16));
}

// Even and odd columns are summed separately, so that additions do not wait for one another.
template <PanelFormat kFormat, int kRows, int kPanels>
PIE_AVX512 void RunFloatTile(const std::byte* panel, size_t panel_bytes, const FloatRows& x,
                             float* y, size_t y_stride, uint32_t lanes) {
  __m512 sum[2][kRows][kPanels];
  PIE_UNROLL
  for (int odd = 0; odd < 2; ++odd) {
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) sum[odd][r][p] = _mm512_setzero_ps();
    }
  }
  uint32_t k = 0;
  for (; k + 2 <= x.columns; k += 2) {
    PIE_UNROLL
    for (int odd = 0; odd < 2; ++odd) {
      PIE_UNROLL
      for (int p = 0; p < kPanels; ++p) {
        const __m512 w = LoadColumn<kFormat>(panel + p * panel_bytes, k, odd);
        PIE_UNROLL
        for (int r = 0; r < kRows; ++r) {
          const __m512 value = _mm512_set1_ps(x.data[r * x.stride + k + odd]);
          sum[odd][r][p] = _mm512_fmadd_ps(w, value, sum[odd][r][p]);
        }
      }
    }
  }
  PIE_UNROLL
  for (int p = 0; p < kPanels; ++p) {
    const uint16_t mask = LaneMask(p + 1 == kPanels ? lanes : kPanelRows);
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (k < x.columns) {
        const __m512 w = LoadColumn<kFormat>(panel + p * panel_bytes, k, 0);
        sum[0][r][p] = _mm512_fmadd_ps(w, _mm512_set1_ps(x.data[r * x.stride + k]), sum[0][r][p]);
      }
      Store512(y + r * y_stride + p * size_t{kPanelRows}, mask,
               _mm512_add_ps(sum[0][r][p], sum[1][r][p]));
    }
  }
}

template <PanelFormat kFormat>
void RunFloatRange(const PackedMatrix& w, const FloatRows& x, const Output& out) {
  for (uint32_t panel = out.range.panel_begin; panel < out.range.panel_end;) {
    const uint32_t panels = panel + 1 < out.range.panel_end ? 2 : 1;
    const uint32_t lanes = LanesOf(w, panel + panels - 1);
    for (uint32_t row = out.range.row_begin; row < out.range.row_end;) {
      const uint32_t rows = out.range.row_end - row >= 4 ? 4 : 1;
      FloatRows from = x;
      from.data += row * x.stride;
      float* const y = out.At(row, panel);
      const auto run =
          panels == 2 ? (rows == 4 ? RunFloatTile<kFormat, 4, 2> : RunFloatTile<kFormat, 1, 2>)
                      : (rows == 4 ? RunFloatTile<kFormat, 4, 1> : RunFloatTile<kFormat, 1, 1>);
      run(w.Panel(panel), w.panel_bytes(), from, y, out.to.stride, lanes);
      row += rows;
    }
    panel += panels;
  }
}

}  // namespace

void FloatAvx512(const PackedMatrix& w, const FloatRows& x, const Output& out) {
  WithFloatFormat(w.format(), [&]<PanelFormat kFormat>() { RunFloatRange<kFormat>(w, x, out); });
}

}  // namespace pie::cpu::matmul
