// Inside of the AVX-512 kernels for quantised matrices: panels → registers. Not for other files.
#pragma once

#include <cstring>
#include <vector>

#include "backend/cpu/matmul_kernels.h"
#include "backend/cpu/simd.h"

namespace pie::cpu::matmul {

// What is taken off a stored number; steps are made unsigned.
constexpr int OffsetOf(const PanelLayout& layout) {
  return layout.stepped ? 128 : layout.offset;
}

// Vector v of a block, as unsigned bytes.
template <PanelFormat kFormat>
PIE_AVX512_VNNI inline __m512i Expand(const std::byte* block, uint32_t v) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  if constexpr (!kLayout.nibbles()) return _mm512_loadu_si512(block + 64 * v);
  const __m512i both = _mm512_loadu_si512(block + 64 * (v / 2));
  const __m512i low = _mm512_set1_epi8(0xF);
  __m512i q = _mm512_and_si512(v % 2 == 0 ? both : _mm512_srli_epi16(both, 4), low);
  if constexpr (kLayout.stepped) {
    __m128i steps = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kLayout.steps->data()));
    steps = _mm_xor_si128(steps, _mm_set1_epi8(-128));
    q = _mm512_shuffle_epi8(_mm512_broadcast_i32x4(steps), q);
  }
  const std::byte* const high = block + kLayout.high_at();
  if constexpr (kLayout.bits == 5) {
    uint64_t bits;
    std::memcpy(&bits, high + 8 * v, sizeof bits);
    q = _mm512_mask_add_epi8(q, bits, q, _mm512_set1_epi8(16));
  }
  if constexpr (kLayout.bits == 6) {
    const __m512i plane = _mm512_loadu_si512(high + 64 * (v / 4));
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(v % 4 * 2));
    const __m512i two = _mm512_and_si512(_mm512_srl_epi16(plane, shift), _mm512_set1_epi8(3));
    q = _mm512_or_si512(q, _mm512_slli_epi16(two, 4));
  }
  return q;
}

// Units of a panel's minima.
template <PanelFormat kFormat>
PIE_AVX512_VNNI inline __m512 Units(const std::byte* panel, uint32_t blocks) {
  return _mm512_loadu_ps(panel + LayoutOf(kFormat).units_at(blocks));
}

// One column of a panel, as floats.
template <PanelFormat kFormat>
PIE_AVX512_VNNI inline __m512 Column(const std::byte* panel, uint32_t blocks, uint32_t column) {
  constexpr PanelLayout kLayout = LayoutOf(kFormat);
  const uint32_t b = column / kQuantBlock;
  const std::byte* const block = panel + size_t{b} * kLayout.bytes();
  const uint32_t i = column % kQuantBlock;
  const uint32_t v = kLayout.nibbles() ? i % 16 / 4 * 2 + i / 16 : i / 4;
  const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(8 * (i % 4)));
  const __m512i q =
      _mm512_and_si512(_mm512_srl_epi32(Expand<kFormat>(block, v), shift), _mm512_set1_epi32(0xFF));
  const uint32_t part = kLayout.scales == 2 ? i / 16 * 32 : 0;
  const auto* const scales = reinterpret_cast<const uint16_t*>(block + kLayout.scale_at() + part);
  const __m512 scale = LoadHalf512(scales);
  if constexpr (kLayout.whole_min()) {
    const __m512i pair = _mm512_loadu_si512(panel + kLayout.minima_at(blocks) + 64 * (b / 2));
    const __m128i up = _mm_cvtsi32_si128(b % 2 == 0 ? 16 : 0);
    const __m512i multiple = _mm512_srai_epi32(_mm512_sll_epi32(pair, up), 16);
    const __m512 min = _mm512_mul_ps(_mm512_cvtepi32_ps(multiple), Units<kFormat>(panel, blocks));
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(q), scale, min);
  } else if constexpr (kLayout.has_min) {
    const __m512 min = LoadHalf512(scales + (kLayout.min_at() - kLayout.scale_at()) / 2);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(q), scale, min);
  }
  const __m512i offset = _mm512_set1_epi32(OffsetOf(kLayout));
  return _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(q, offset)), scale);
}

// Columns of W that the outliers of some rows meet. Rows mostly have them in the same few, so each
// panel unpacks them once for all rows.
class OutlierColumns {
 public:
  struct Meeting {    // of an outlier and its column
    uint32_t offset;  // of the column in data(), for the first panel; the second's is behind it
    float value;
  };

  // As long as there are so many rows left, the meetings of `tall` rows follow one another by rank:
  // the first of each, then the second of each, …
  void Plan(const QuantizedRows& x, uint32_t row_begin, uint32_t row_end, uint32_t tall) {
    constexpr uint32_t kNone = ~0U;
    if (slot_of_.size() < x.columns) slot_of_.resize(x.columns, kNone);
    columns_.clear();
    meetings_.clear();
    const uint32_t count = x.outliers_a_row();
    for (uint32_t first = row_begin; first < row_end;) {
      const uint32_t rows = row_end - first >= tall ? tall : 1;
      for (uint32_t i = 0; i < count; ++i) {
        for (uint32_t row = first; row < first + rows; ++row) {
          const Outlier& outlier = x.outliers[size_t{row} * count + i];
          uint32_t& slot = slot_of_[outlier.column];
          if (slot == kNone) {
            slot = static_cast<uint32_t>(columns_.size());
            columns_.push_back(outlier.column);
          }
          meetings_.push_back({slot * 2 * kPanelRows, outlier.value});
        }
      }
      first += rows;
    }
    for (uint32_t column : columns_) slot_of_[column] = kNone;
  }

  template <PanelFormat kFormat>
  PIE_AVX512_VNNI void Unpack(const std::byte* panel, size_t panel_bytes, uint32_t blocks,
                              uint32_t panels) {
    const size_t numbers = columns_.size() * 2 * kPanelRows;
    if (memory_.size() < numbers + kPanelRows) memory_.resize(numbers + kPanelRows);
    float* const to = data();
    for (uint32_t p = 0; p < panels; ++p) {
      for (size_t i = 0; i < columns_.size(); ++i) {
        _mm512_store_ps(to + (2 * i + p) * kPanelRows,
                        Column<kFormat>(panel + p * panel_bytes, blocks, columns_[i]));
      }
    }
  }

  const Meeting* meetings() const { return meetings_.data(); }  // as Plan says
  // 64-byte aligned.
  float* data() {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (64 - address % 64) % 64 / sizeof(float);
  }

 private:
  std::vector<uint32_t> slot_of_;  // [columns]
  std::vector<uint32_t> columns_;
  std::vector<Meeting> meetings_;
  std::vector<float> memory_;  // [slots, 2, 16]
};

}  // namespace pie::cpu::matmul
