#include <algorithm>
#include <cstring>

#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/simd.h"

namespace pie::cpu::matmul {
namespace {

// A tile is kRows × 8 outputs: half a panel.
constexpr uint32_t kLanes = 8;

PIE_AVX2 inline __m256i Load256(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

PIE_AVX2 inline __m256i Broadcast4(const int8_t* p) {
  int32_t four;
  std::memcpy(&four, p, 4);
  return _mm256_set1_epi32(four);
}

PIE_AVX2 inline void StoreLanes(float* y, __m256 values, uint32_t lanes) {
  if (lanes >= kLanes) return _mm256_storeu_ps(y, values);
  float all[kLanes];
  _mm256_storeu_ps(all, values);
  std::memcpy(y, all, lanes * sizeof(float));
}

// Dot products of 8 rows of a block with one row of x.
template <DType kType>
PIE_AVX2 inline __m256i BlockDot(const std::byte* half, const int8_t* x, int32_t x_sum) {
  using F = Format<kType>;
  const __m256i ones = _mm256_set1_epi16(1);
  if constexpr (F::kNibbles) {
    // 16 products of at most 15 × 127 fit 16 bits.
    const __m256i low = _mm256_set1_epi8(0xF);
    __m256i pairs = _mm256_setzero_si256();
    PIE_UNROLL
    for (int g = 0; g < 4; ++g) {
      const __m256i both = Load256(half + 64 * g);
      const __m256i w0 = _mm256_and_si256(both, low);
      const __m256i w1 = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w0, Broadcast4(x + 4 * g)));
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w1, Broadcast4(x + 16 + 4 * g)));
    }
    const __m256i dot = _mm256_madd_epi16(pairs, ones);
    return F::kHasMin ? dot : _mm256_sub_epi32(dot, _mm256_set1_epi32(x_sum * 8));
  } else {
    // |w| × (x with w's sign): two products of at most 128 × 127 fit 16 bits, more would not.
    const __m256i flip = _mm256_set1_epi8(-128);
    __m256i dot = _mm256_setzero_si256();
    PIE_UNROLL
    for (int g = 0; g < 8; ++g) {
      const __m256i w = _mm256_xor_si256(Load256(half + 64 * g), flip);
      const __m256i pairs =
          _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(Broadcast4(x + 4 * g), w));
      dot = _mm256_add_epi32(dot, _mm256_madd_epi16(pairs, ones));
    }
    return dot;
  }
}

// One column of half a panel, as floats.
template <DType kType>
PIE_AVX2 inline __m256 Column(const std::byte* panel, uint32_t half, uint32_t column) {
  using F = Format<kType>;
  const std::byte* const block = panel + size_t{column / kQuantBlock} * F::kBytes;
  const uint32_t i = column % kQuantBlock;
  const uint32_t byte = F::kNibbles ? i % 16 : i;
  const uint32_t shift = 8 * (byte % 4) + (F::kNibbles && i >= 16 ? 4 : 0);
  const __m256i four = Load256(block + 64 * (byte / 4) + 32 * half);
  const __m256i value =
      _mm256_and_si256(_mm256_srl_epi32(four, _mm_cvtsi32_si128(static_cast<int>(shift))),
                       _mm256_set1_epi32(F::kNibbles ? 0xF : 0xFF));
  const auto* const halves = reinterpret_cast<const uint16_t*>(block) + kLanes * half;
  const __m256 scale = LoadHalf256(halves + F::kScaleAt / 2);
  if constexpr (F::kHasMin) {
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(value), scale, LoadHalf256(halves + F::kMinAt / 2));
  }
  const __m256i offset = _mm256_set1_epi32(1 << F::kOffsetShift);
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(value, offset)), scale);
}

template <DType kType, int kRows>
PIE_AVX2 void RunTile(const std::byte* panel, uint32_t half, const QuantizedRows& x, uint32_t row,
                      float* y, size_t y_stride, uint32_t lanes) {
  using F = Format<kType>;
  const uint32_t blocks = x.blocks();
  __m256 sum[kRows];
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) sum[r] = _mm256_setzero_ps();
  const std::byte* block = panel;
  for (uint32_t b = 0; b < blocks; ++b, block += F::kBytes) {
    const auto* const scales = reinterpret_cast<const uint16_t*>(block + F::kScaleAt);
    const __m256 scale = LoadHalf256(scales + kLanes * half);
    PIE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const size_t at = size_t{row + r} * blocks + b;
      const __m256i dot =
          BlockDot<kType>(block + 32 * half, x.values.data() + at * kQuantBlock, x.sums[at]);
      const __m256 both = _mm256_mul_ps(scale, _mm256_set1_ps(x.scales[at]));
      sum[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), both, sum[r]);
      if constexpr (F::kHasMin) {
        const __m256 min = LoadHalf256(scales + 16 + kLanes * half);
        sum[r] = _mm256_fmadd_ps(min, _mm256_set1_ps(x.real_sums[at]), sum[r]);
      }
    }
  }
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    for (const Outlier& outlier : OutliersOf(x, row + r)) {
      const __m256 w = Column<kType>(panel, half, outlier.column);
      sum[r] = _mm256_fmadd_ps(_mm256_set1_ps(outlier.value), w, sum[r]);
    }
    StoreLanes(y + r * y_stride, sum[r], lanes);
  }
}

template <DType kType>
void RunRange(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  for (uint32_t panel = out.range.panel_begin; panel < out.range.panel_end; ++panel) {
    for (uint32_t half = 0; half < 2 && half * kLanes < LanesOf(w, panel); ++half) {
      const uint32_t lanes = LanesOf(w, panel) - half * kLanes;
      for (uint32_t row = out.range.row_begin; row < out.range.row_end;) {
        const bool two = row + 1 < out.range.row_end;
        float* const y = out.y + row * out.y_stride + panel * size_t{kPanelRows} + half * kLanes;
        (two ? RunTile<kType, 2> : RunTile<kType, 1>)(w.Panel(panel), half, x, row, y, out.y_stride,
                                                      lanes);
        row += two ? 2 : 1;
      }
    }
  }
}

// Eight weights of one column.
template <DType kType>
PIE_AVX2 inline __m256 LoadColumn(const std::byte* column, uint32_t half) {
  if constexpr (kType == DType::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(column) + kLanes * half);
  }
  const auto* const halves = reinterpret_cast<const uint16_t*>(column) + kLanes * half;
  if constexpr (kType == DType::kF16) return LoadHalf256(halves);
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(halves));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

// Even and odd columns are summed apart, so that additions need not wait for one another.
template <DType kType, int kRows>
PIE_AVX2 void RunFloatTile(const std::byte* panel, uint32_t half, const FloatRows& x, uint32_t row,
                           float* y, size_t y_stride, uint32_t lanes) {
  constexpr size_t kColumnBytes = kType == DType::kF32 ? 64 : 32;
  const float* const from = x.data + row * x.stride;
  __m256 sum[2][kRows];
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) sum[0][r] = sum[1][r] = _mm256_setzero_ps();
  uint32_t k = 0;
  for (; k + 2 <= x.columns; k += 2) {
    const __m256 w0 = LoadColumn<kType>(panel + k * kColumnBytes, half);
    const __m256 w1 = LoadColumn<kType>(panel + (k + 1) * kColumnBytes, half);
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
      const __m256 w = LoadColumn<kType>(panel + k * kColumnBytes, half);
      sum[0][r] = _mm256_fmadd_ps(w, _mm256_set1_ps(from[r * x.stride + k]), sum[0][r]);
    }
    StoreLanes(y + r * y_stride, _mm256_add_ps(sum[0][r], sum[1][r]), lanes);
  }
}

template <DType kType>
void RunFloatRange(const PackedMatrix& w, const FloatRows& x, const Output& out) {
  for (uint32_t panel = out.range.panel_begin; panel < out.range.panel_end; ++panel) {
    for (uint32_t half = 0; half < 2 && half * kLanes < LanesOf(w, panel); ++half) {
      const uint32_t lanes = LanesOf(w, panel) - half * kLanes;
      for (uint32_t row = out.range.row_begin; row < out.range.row_end;) {
        const bool four = row + 3 < out.range.row_end;
        float* const y = out.y + row * out.y_stride + panel * size_t{kPanelRows} + half * kLanes;
        (four ? RunFloatTile<kType, 4> : RunFloatTile<kType, 1>)(w.Panel(panel), half, x, row, y,
                                                                 out.y_stride, lanes);
        row += four ? 4 : 1;
      }
    }
  }
}

}  // namespace

void QuantizedAvx2(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  WithFormat(w.dtype(), [&]<DType kType>() { RunRange<kType>(w, x, out); });
}

void FloatAvx2(const PackedMatrix& w, const FloatRows& x, const Output& out) {
  WithFloatFormat(w.dtype(), [&]<DType kType>() { RunFloatRange<kType>(w, x, out); });
}

}  // namespace pie::cpu::matmul
