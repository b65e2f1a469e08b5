// Internal to the AVX-512 kernels for quantised matrices: unpacking of panels into registers, and
// addressing within a tile.
#pragma once

#include <cstdint>
#include <cstring>

#include "backend/cpu/machine/simd.h"
#include "backend/cpu/matmul/matmul_kernels.h"

namespace pie::cpu::matmul {

// The number to subtract from a stored one. Stepped formats are shifted to be unsigned.
constexpr int OffsetOf(const PanelLayout& layout) {
  return layout.stepped ? 128 : layout.offset;
}

// Returns vector v of a block as unsigned bytes.
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

// Returns the units of a panel's minima.
template <PanelFormat kFormat>
PIE_AVX512_VNNI inline __m512 Units(const std::byte* panel, uint32_t blocks) {
  return _mm512_loadu_ps(panel + LayoutOf(kFormat).units_at(blocks));
}

// The rows of an array, `stride` apart. Every third row has an address in a register; the
// addressing modes of an instruction reach the two after it. The empty asm hides the values from
// the compiler, which would otherwise increment an address for every row in every block.
template <class T, int kRows>
class Rows {
 public:
  PIE_AVX512_VNNI Rows(const T* first, size_t stride) : stride_(stride) {
    PIE_UNROLL
    for (int i = 0; i < kBases; ++i) {
      base_[i] = first + 3 * i * stride;
      asm("" : "+r"(base_[i]));
    }
    asm("" : "+r"(stride_));
  }
  PIE_AVX512_VNNI const T* operator[](int row) const { return base_[row / 3] + row % 3 * stride_; }
  PIE_AVX512_VNNI void Advance(size_t count) {
    PIE_UNROLL
    for (int i = 0; i < kBases; ++i) base_[i] += count;
  }

 private:
  static constexpr int kBases = (kRows + 2) / 3;
  const T* base_[kBases];
  size_t stride_;
};

// Prefetches the next panels, a little in every block, in the order of memory. With more than one
// row, computation takes too long for the hardware's prefetcher to keep ahead.
class NextPanels {
 public:
  PIE_AVX512_VNNI NextPanels(const std::byte* at, size_t bytes, uint32_t blocks)
      : at_(reinterpret_cast<const char*>(at)), lines_((bytes / 64 + blocks - 1) / blocks) {}
  PIE_AVX512_VNNI void Fetch() {
    for (size_t i = 0; i < lines_; ++i, at_ += 64) _mm_prefetch(at_, _MM_HINT_T1);
  }

 private:
  const char* at_;
  size_t lines_;  // per block; the last ones may lie beyond the panels
};

}  // namespace pie::cpu::matmul
