// Internal to the AVX-512 kernels for quantised matrices: products with the outliers of x
// (quantize.h).
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "backend/cpu/matmul/matmul_avx512.h"

namespace pie::cpu::matmul {

// Columns of one block of a panel as floats. Scales and minima are loaded once for all of them.
template <PanelFormat kFormat>
class BlockColumns {
 public:
  PIE_AVX512_VNNI BlockColumns(const std::byte* panel, uint32_t blocks, uint32_t b)
      : block_(panel + size_t{b} * kLayout.bytes()) {
    const auto* const scales = reinterpret_cast<const uint16_t*>(block_ + kLayout.scale_at());
    PIE_UNROLL
    for (uint32_t part = 0; part < kLayout.scales; ++part) {
      scale_[part] = LoadHalf512(scales + 16 * part);
      if constexpr (kLayout.has_min && !kLayout.whole_min()) {
        min_[part] = LoadHalf512(scales + 16 * (kLayout.scales + part));
      }
    }
    if constexpr (kLayout.whole_min()) {
      const __m512i pair = _mm512_loadu_si512(panel + kLayout.minima_at(blocks) + 64 * (b / 2));
      const __m128i up = _mm_cvtsi32_si128(b % 2 == 0 ? 16 : 0);
      const __m512i multiple = _mm512_srai_epi32(_mm512_sll_epi32(pair, up), 16);
      min_[0] = _mm512_mul_ps(_mm512_cvtepi32_ps(multiple), Units<kFormat>(panel, blocks));
    }
  }

  PIE_AVX512_VNNI __m512 At(uint32_t i) const {
    const uint32_t part = kLayout.scales == 2 ? i / 16 : 0;
    if constexpr (kLayout.has_min) return _mm512_fmadd_ps(Number(i), scale_[part], min_[part]);
    return _mm512_mul_ps(Number(i), scale_[part]);
  }

 private:
  static constexpr PanelLayout kLayout = LayoutOf(kFormat);
  static constexpr int kOffset = kLayout.has_min ? 0 : OffsetOf(kLayout);

  // Returns number i of each row, less its offset.
  PIE_AVX512_VNNI __m512 Number(uint32_t i) const {
    if constexpr (kLayout.bits == 4 && !kLayout.stepped) {  // avoids a branch on the half
      const __m512i bytes = _mm512_loadu_si512(block_ + kNibbles.from[i]);
      const __m512i shift = _mm512_set1_epi32(kNibbles.shift[i]);
      // The permutation uses only the lowest four bits.
      return _mm512_permutexvar_ps(_mm512_srlv_epi32(bytes, shift), numbers_);
    }
    const uint32_t v = kLayout.nibbles() ? i % 16 / 4 * 2 + i / 16 : i / 4;
    const __m128i shift = _mm_cvtsi32_si128(static_cast<int>(8 * (i % 4)));
    const __m512i q = _mm512_and_si512(_mm512_srl_epi32(Expand<kFormat>(block_, v), shift),
                                       _mm512_set1_epi32(0xFF));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(q, _mm512_set1_epi32(kOffset)));
  }

  // The place of each number in a block of nibbles: its byte and its shift.
  struct Nibbles {
    uint32_t from[kQuantBlock];
    int32_t shift[kQuantBlock];
  };
  static constexpr Nibbles kNibbles = [] {
    Nibbles places{};
    for (uint32_t i = 0; i < kQuantBlock; ++i) {
      places.from[i] = i % 16 / 4 * 64;
      places.shift[i] = static_cast<int32_t>(8 * (i % 4) + i / 16 * 4);
    }
    return places;
  }();

  // The values of the 16 nibbles.
  const __m512 numbers_ =
      _mm512_sub_ps(_mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                    _mm512_set1_ps(kOffset));
  const std::byte* block_;
  __m512 scale_[kLayout.scales];
  __m512 min_[kLayout.scales];
};

// The columns of W that outliers of some rows multiply. Most rows have outliers in the same few
// columns, so each panel unpacks them once for all rows.
class OutlierColumns {
 public:
  // Finds the columns for these rows. Costs nothing if the rows are those of the last call.
  PIE_AVX512_VNNI void Plan(const QuantizedRows& x, uint32_t row_begin, uint32_t row_end) {
    if (id_ == x.id && row_begin_ == row_begin && row_end_ == row_end) return;
    id_ = x.id;
    row_begin_ = row_begin;
    row_end_ = row_end;
    columns_ = x.columns;
    if (met_.size() < columns_) met_.resize(columns_);
    const size_t numbers = size_t{columns_} * 2 * kPanelRows;
    if (memory_.size() < numbers) memory_.resize(numbers);
    const uint32_t count = x.outliers_per_row();
    for (size_t i = size_t{row_begin} * count; i < size_t{row_end} * count; ++i) {
      met_[x.outliers[i].column] = 1;
    }
    blocks_.clear();
    met_columns_.clear();
    for (uint32_t b = 0; b < x.blocks(); ++b) {
      auto* const flags = reinterpret_cast<__m256i*>(met_.data() + size_t{b} * kQuantBlock);
      const __m256i here = _mm256_load_si256(flags);
      uint32_t bits = _mm256_test_epi8_mask(here, here);
      if (bits == 0) continue;
      blocks_.push_back({b, static_cast<uint32_t>(std::popcount(bits))});
      for (; bits != 0; bits &= bits - 1) {
        met_columns_.push_back(static_cast<uint8_t>(std::countr_zero(bits)));
      }
      _mm256_store_si256(flags, _mm256_setzero_si256());
    }
  }

  // Unpacks the columns of a panel to place 0 or 1 (a tile has one or two panels).
  template <PanelFormat kFormat>
  [[gnu::noinline]] PIE_AVX512_VNNI void Unpack(const std::byte* panel, uint32_t blocks,
                                                uint32_t place) {
    float* const to = memory_.data() + size_t{place} * columns_ * kPanelRows;
    const uint8_t* column = met_columns_.data();
    for (const auto [b, count] : blocks_) {
      const BlockColumns<kFormat> columns(panel, blocks, b);
      float* const block_to = to + size_t{b} * kQuantBlock * kPanelRows;
      for (const uint8_t* const end = column + count; column != end; ++column) {
        _mm512_store_ps(block_to + size_t{*column} * kPanelRows, columns.At(*column));
      }
    }
  }

  // The unpacked panel, [columns, 16]; only planned columns are set.
  const float* At(uint32_t place) const {
    return memory_.data() + size_t{place} * columns_ * kPanelRows;
  }

 private:
  struct Block {
    uint32_t index;
    uint32_t count;  // number of its planned columns
  };
  uint64_t id_ = 0;
  uint32_t row_begin_ = 0, row_end_ = 0;
  uint32_t columns_ = 0;
  AlignedVector<uint8_t> met_;  // [columns], 1 for planned columns; all zero between two plans
  std::vector<Block> blocks_;
  std::vector<uint8_t> met_columns_;  // for each of blocks_ in order, the columns within the block
  AlignedVector<float> memory_;
};

}  // namespace pie::cpu::matmul
