// Inside of attention: keys and values of one block as pairs of bfloat16, as vdpbf16ps takes them.
// Not for other files.
//
// A pair of keys' numbers are two dimensions of one key, a pair of values' two keys of one
// dimension; sixteen pairs are a register. They are rounded to nearest from what the page has, so
// they are the same wherever and whenever they are made. Values of keys that nobody sees are 0:
// their memory may never have been written.
#pragma once

#include <cstdint>

#include "backend/cpu/attention_kernels.h"
#include "backend/cpu/simd.h"

namespace pie::cpu::attention {

inline constexpr uint32_t kGroups = kBlock / 16;  // of keys in a block

// One number of each a lane.
PIE_AVX512_BF16 inline __m512i PairUp(__m512 first, __m512 second) {
  const __m512i interleave =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
  return _mm512_permutexvar_epi16(interleave, both);
}

// Where the pages have a block; pairs are made as they are needed. For few lines, which would not
// repay storing them.
struct RawBlock {
  const uint16_t* keys[kGroups];         // from the group's first key on
  const uint16_t* next_keys[kGroups];    // of the block after this one, to be fetched early: …
  const uint16_t* next_values[kGroups];  // … pages lie anywhere, hardware does not see them coming
  const uint16_t* values[kBlock];
  size_t stride;  // from one dimension of keys to the next

  // Pages hold whole sixteens of keys, heads have whole sixteens of numbers.
  static bool Fits(const KvLayer& kv);
  // `any`: the keys that some line sees.
  void Find(const Span& span, uint32_t first_key, uint64_t any);

  PIE_AVX512_BF16 __m512i Keys(uint32_t pair, uint32_t group) const {
    const size_t at = 2 * pair * stride;
    _mm_prefetch(next_keys[group] + at, _MM_HINT_T0);
    _mm_prefetch(next_values[group] + size_t{32} * pair, _MM_HINT_T0);
    return PairUp(LoadHalf512(keys[group] + at), LoadHalf512(keys[group] + at + stride));
  }
  PIE_AVX512_BF16 __m512i Values(uint32_t pair, uint32_t chunk) const {
    return PairUp(LoadHalf512(values[2 * pair] + size_t{16} * chunk),
                  LoadHalf512(values[2 * pair + 1] + size_t{16} * chunk));
  }
};

// The pairs themselves, for many lines.
struct PairBlock {
  static constexpr uint32_t kMaxPairs = Attention::kMaxHeadDim / 2;
  static constexpr uint32_t kMaxChunks = Attention::kMaxHeadDim / 16;
  uint32_t chunks;  // sixteens of dimensions, the last filled up with zeros
  alignas(64) uint32_t keys[kMaxPairs * kGroups * 16];        // [pairs, groups, 16]
  alignas(64) uint32_t values[kBlock / 2 * kMaxChunks * 16];  // [key pairs, chunks, 16]

  void Load(const Span& span, uint32_t first_key, uint64_t any);

  PIE_AVX512_BF16 __m512i Keys(uint32_t pair, uint32_t group) const {
    return _mm512_load_si512(keys + size_t{pair * kGroups + group} * 16);
  }
  PIE_AVX512_BF16 __m512i Values(uint32_t pair, uint32_t chunk) const {
    return _mm512_load_si512(values + size_t{pair * chunks + chunk} * 16);
  }
};

}  // namespace pie::cpu::attention
