#include <algorithm>
#include <cstring>

#include "backend/cpu/machine/simd.h"
#include "backend/cpu/matmul/matmul_kernels.h"

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

// Returns vector v of half a block's rows as unsigned bytes or steps.
template <PanelFormat kFormat>
PIE_AVX2 inline __m256i Expand(const std::byte* block, uint32_t half, uint32_t v) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  if constexpr (!kLayout.nibbles()) return Load256(block + 64 * v + 32 * half);
  const __m256i both = Load256(block + 64 * (v / 2) + 32 * half);
  const __m256i low = _mm256_set1_epi8(0xF);
  __m256i q = _mm256_and_si256(v % 2 == 0 ? both : _mm256_srli_epi16(both, 4), low);
  if constexpr (kLayout.stepped) {
    const __m128i steps = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kLayout.steps->data()));
    q = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(steps), q);
  }
  const std::byte* const high = block + kLayout.high_at();
  if constexpr (kLayout.bits == 5) {
    // Each byte selects the byte that has its bit, then the bit.
    const __m256i byte =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ULL));
    int32_t bits;
    std::memcpy(&bits, high + 8 * v + 4 * half, sizeof bits);
    const __m256i spread =
        _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte), bit);
    q = _mm256_or_si256(q, _mm256_and_si256(_mm256_cmpeq_epi8(spread, bit), _mm256_set1_epi8(16)));
  }
  if constexpr (kLayout.bits == 6) {
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(v % 4 * 2));
    const __m256i plane = Load256(high + 64 * (v / 4) + 32 * half);
    const __m256i two = _mm256_and_si256(_mm256_srl_epi16(plane, shift), _mm256_set1_epi8(3));
    q = _mm256_or_si256(q, _mm256_slli_epi16(two, 4));
  }
  return q;
}

// Adds the products of unsigned w and signed x to dot, four bytes per lane. Written in assembly
// because a template cannot have a target attribute of its own. Used only at CpuLevel::kAvxVnni.
PIE_AVX2 inline __m256i ByteDot(__m256i dot, __m256i w, __m256i x) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(dot) : "x"(w), "x"(x));
  return dot;
}

// Dot products of 8 rows of a block with one row of x, for one of the block's scales.
template <PanelFormat kFormat, bool kVnni>
PIE_AVX2 inline __m256i BlockDot(const std::byte* block, uint32_t half, uint32_t part,
                                 const int8_t* x, int32_t x_sum) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  constexpr uint32_t kParts = kLayout.scales;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i dot = _mm256_setzero_si256();
  __m256i pairs = _mm256_setzero_si256();
  PIE_UNROLL
  for (uint32_t i = 0; i < 8 / kParts; ++i) {
    const uint32_t v = kParts == 1 ? i : 2 * i + part;
    const uint32_t column = !kLayout.nibbles() ? 4 * v : v / 2 * 4 + v % 2 * 16;
    const __m256i four = Broadcast4(x + column);
    __m256i w = Expand<kFormat>(block, half, v);
    if constexpr (kVnni) {
      // made unsigned
      if constexpr (kLayout.stepped) w = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
      dot = ByteDot(dot, w, four);
    } else if constexpr (kLayout.bits == 4 && !kLayout.stepped) {
      // 16 products of at most 15 × 127 fit into 16 bits.
      pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w, four));
    } else if constexpr (kLayout.bits < 8 && !kLayout.stepped) {
      // Two products of at most 63 × 127 fit into 16 bits.
      dot = _mm256_add_epi32(dot, _mm256_madd_epi16(_mm256_maddubs_epi16(w, four), ones));
    } else {
      // Computes |w| × (x with w's sign). Two products of at most 128 × 127 fit into 16 bits, more
      // would not.
      if constexpr (kLayout.bits == 8) w = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
      const __m256i products = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(four, w));
      dot = _mm256_add_epi32(dot, _mm256_madd_epi16(products, ones));
    }
  }
  if constexpr (!kVnni && kLayout.bits == 4 && !kLayout.stepped) {
    dot = _mm256_madd_epi16(pairs, ones);
  }
  constexpr int kOffset = kVnni && kLayout.stepped    ? 128
                          : kVnni || kLayout.bits < 8 ? kLayout.offset
                                                      : 0;
  if constexpr (kOffset != 0) {
    dot = _mm256_sub_epi32(dot, _mm256_set1_epi32(x_sum * kOffset));
  }
  return dot;
}

// Returns the units of the minima of half a panel.
template <PanelFormat kFormat>
PIE_AVX2 inline __m256 Units(const std::byte* panel, uint32_t half, uint32_t blocks) {
  const std::byte* const units = panel + LayoutOf(kFormat).units_at(blocks);
  return _mm256_loadu_ps(reinterpret_cast<const float*>(units) + kLanes * half);
}

// Returns one column of half a panel as floats.
template <PanelFormat kFormat>
PIE_AVX2 inline __m256 Column(const std::byte* panel, uint32_t half, uint32_t blocks,
                              uint32_t column) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  const std::byte* const block = panel + size_t{column / kQuantBlock} * kLayout.bytes();
  const uint32_t i = column % kQuantBlock;
  const uint32_t v = kLayout.nibbles() ? i % 16 / 4 * 2 + i / 16 : i / 4;
  const __m256i four = Expand<kFormat>(block, half, v);
  // Shifts the byte to the top and back down, which extends its sign if it has one.
  const __m256i top = _mm256_sll_epi32(four, _mm_cvtsi32_si128(static_cast<int>(24 - 8 * (i % 4))));
  const __m256i q = kLayout.stepped ? _mm256_srai_epi32(top, 24) : _mm256_srli_epi32(top, 24);
  const uint32_t part = kLayout.scales == 2 ? i / 16 * 32 : 0;
  const auto* const scales =
      reinterpret_cast<const uint16_t*>(block + kLayout.scale_at() + part) + kLanes * half;
  const __m256 scale = LoadHalf256(scales);
  if constexpr (kLayout.whole_min()) {
    const uint32_t b = column / kQuantBlock;
    const __m256i pair = Load256(panel + kLayout.minima_at(blocks) + 64 * (b / 2) + 32 * half);
    const __m256i multiple = _mm256_srai_epi32(b % 2 == 0 ? _mm256_slli_epi32(pair, 16) : pair, 16);
    const __m256 min =
        _mm256_mul_ps(_mm256_cvtepi32_ps(multiple), Units<kFormat>(panel, half, blocks));
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), scale, min);
  } else if constexpr (kLayout.has_min) {
    const __m256 min = LoadHalf256(scales + (kLayout.min_at() - kLayout.scale_at()) / 2);
    return _mm256_fmadd_ps(_mm256_cvtepi32_ps(q), scale, min);
  }
  const __m256i offset = _mm256_set1_epi32(kLayout.offset);
  return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(q, offset)), scale);
}

template <PanelFormat kFormat, bool kVnni, int kRows>
PIE_AVX2 void RunTile(const std::byte* panel, uint32_t half, const QuantizedRows& x, uint32_t row,
                      float* y, size_t y_stride, uint32_t lanes) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  const uint32_t blocks = x.blocks();
  __m256 sum[kRows];
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) sum[r] = _mm256_setzero_ps();
  const std::byte* block = panel;
  for (uint32_t b = 0; b < blocks; ++b, block += kLayout.bytes()) {
    for (uint32_t part = 0; part < kLayout.scales; ++part) {
      const auto* const scales =
          reinterpret_cast<const uint16_t*>(block + kLayout.scale_at() + 32 * part) + kLanes * half;
      const __m256 scale = LoadHalf256(scales);
      PIE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const size_t at = size_t{row + r} * blocks + b;
        const int32_t x_sum = kLayout.scales == 1 ? x.sums[at]
                              : part == 0         ? x.first_sums[at]
                                                  : x.sums[at] - x.first_sums[at];
        const __m256i dot =
            BlockDot<kFormat, kVnni>(block, half, part, x.values.data() + at * kQuantBlock, x_sum);
        const __m256 both = _mm256_mul_ps(scale, _mm256_set1_ps(x.scales[at]));
        sum[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), both, sum[r]);
        if constexpr (kLayout.has_min && !kLayout.whole_min()) {
          const __m256 min = LoadHalf256(scales + (kLayout.min_at() - kLayout.scale_at()) / 2);
          const float real_sum = x.scales[at] * static_cast<float>(x_sum);
          sum[r] = _mm256_fmadd_ps(min, _mm256_set1_ps(real_sum), sum[r]);
        }
      }
    }
  }
  PIE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kLayout.whole_min()) {
      const int16_t* const sums = x.whole_sums.data() + size_t{row + r} * x.whole_stride();
      const std::byte* const minima = panel + kLayout.minima_at(blocks) + 32 * half;
      __m256i dot = _mm256_setzero_si256();
      for (uint32_t b = 0; b < blocks; b += 2) {
        int32_t pair;
        std::memcpy(&pair, sums + b, sizeof pair);
        dot = _mm256_add_epi32(
            dot, _mm256_madd_epi16(Load256(minima + size_t{b} * 32), _mm256_set1_epi32(pair)));
      }
      const __m256 unit =
          _mm256_mul_ps(Units<kFormat>(panel, half, blocks), _mm256_set1_ps(x.sum_units[row + r]));
      sum[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), unit, sum[r]);
    }
    for (const Outlier& outlier : OutliersOf(x, row + r)) {
      const __m256 w = Column<kFormat>(panel, half, blocks, outlier.column);
      sum[r] = _mm256_fmadd_ps(_mm256_set1_ps(outlier.value), w, sum[r]);
    }
    StoreLanes256(y + r * y_stride, sum[r], lanes);
  }
}

template <PanelFormat kFormat, bool kVnni>
void RunRange(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  for (uint32_t panel = out.range.panel_begin; panel < out.range.panel_end; ++panel) {
    for (uint32_t half = 0; half < 2 && half * kLanes < LanesOf(w, panel); ++half) {
      const uint32_t lanes = LanesOf(w, panel) - half * kLanes;
      for (uint32_t row = out.range.row_begin; row < out.range.row_end;) {
        const bool two = row + 1 < out.range.row_end;
        float* const y = out.At(row, panel) + half * kLanes;
        (two ? RunTile<kFormat, kVnni, 2>
             : RunTile<kFormat, kVnni, 1>)(w.Panel(panel), half, x, row, y, out.to.stride, lanes);
        row += two ? 2 : 1;
      }
    }
  }
}

}  // namespace

void QuantizedAvx2(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  WithFormat(w.format(), [&]<PanelFormat kFormat>() { RunRange<kFormat, false>(w, x, out); });
}

void QuantizedAvxVnni(const PackedMatrix& w, const QuantizedRows& x, const Output& out) {
  WithFormat(w.format(), [&]<PanelFormat kFormat>() { RunRange<kFormat, true>(w, x, out); });
}

}  // namespace pie::cpu::matmul
