// Internal to attention: the keys and values of one block as pairs of bfloat16, as vdpbf16ps takes
// them.
//
// A pair of key numbers is two dimensions of one key; a pair of value numbers is one dimension of
// two keys. A register holds sixteen pairs. Numbers are rounded to nearest from the page's content,
// so a pair is the same whenever it is computed. Values of keys that no line sees are 0, because
// their memory may never have been written.
#pragma once

#include <cstdint>

#include "backend/cpu/attention/attention_kernels.h"
#include "backend/cpu/machine/simd.h"

namespace pie::cpu::attention {

inline constexpr uint32_t kGroups = kBlock / 16;  // groups of 16 keys in a block

// Makes sixteen pairs; lane i holds first[i] and second[i].
PIE_AVX512_BF16 inline __m512i PairUp(__m512 first, __m512 second) {
  const __m512i interleave =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const auto both = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
  return _mm512_permutexvar_epi16(interleave, both);
}

// HalfKeys loads one dimension of sixteen adjacent keys. HalfValues loads sixteen dimensions of one
// key's value, or those that the mask selects.
struct HalfKeys {
  const uint16_t* numbers;
  size_t stride;

  PIE_AVX512_BF16 __m512 At(uint32_t dim) const { return LoadHalf512(numbers + dim * stride); }
};
struct HalfValues {
  const uint16_t* numbers;

  PIE_AVX512_BF16 __m512 At(uint32_t dim, uint16_t mask = 0xFFFF) const {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, numbers + dim));
  }
};
// The same for pages of bytes. Sixteen dimensions share a scale.
static_assert(kKvQuantBlock == 16);
struct ByteKeys {
  const int8_t* numbers;
  const uint16_t* scales;
  size_t stride;  // of both

  PIE_AVX512_BF16 __m512 At(uint32_t dim) const {
    const auto* const at = reinterpret_cast<const __m128i*>(numbers + dim * stride);
    const __m512 q = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(at)));
    return _mm512_mul_ps(q, LoadHalf512(scales + dim / kKvQuantBlock * stride));
  }
};
struct ByteValues {
  const int8_t* numbers;
  const uint16_t* scales;

  PIE_AVX512_BF16 __m512 At(uint32_t dim, uint16_t mask = 0xFFFF) const {
    const __m128i bytes = _mm_maskz_loadu_epi8(mask, numbers + dim);
    const __m512 q = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
    return _mm512_mul_ps(q, _mm512_set1_ps(_cvtsh_ss(scales[dim / kKvQuantBlock])));
  }
};

// A block as pointers into the pages; pairs are made when they are needed. For few lines, where
// storing the pairs would not pay off.
template <class KeysOf, class ValuesOf>
struct RawBlock {
  using Number = std::remove_cvref_t<decltype(*ValuesOf::numbers)>;
  KeysOf keys[kGroups];
  ValuesOf values[kBlock];
  const Number* next_keys[kGroups];  // of the next block, to be prefetched: …
  // … pages are scattered, so the hardware's prefetcher misses them
  const Number* next_values[kGroups];

  // `any` has a bit for each key that some line sees.
  void Find(const Span& span, uint32_t first_key, uint64_t any);

  PIE_AVX512_BF16 __m512i Keys(uint32_t pair, uint32_t group) const {
    _mm_prefetch(next_keys[group] + 2 * pair * keys[0].stride, _MM_HINT_T0);
    _mm_prefetch(next_values[group] + size_t{32} * pair, _MM_HINT_T0);
    return PairUp(keys[group].At(2 * pair), keys[group].At(2 * pair + 1));
  }
  PIE_AVX512_BF16 __m512i Values(uint32_t pair, uint32_t chunk) const {
    return PairUp(values[2 * pair].At(16 * chunk), values[2 * pair + 1].At(16 * chunk));
  }
};
using RawHalves = RawBlock<HalfKeys, HalfValues>;
using RawBytes = RawBlock<ByteKeys, ByteValues>;
// True if pages hold a multiple of 16 keys and heads have a multiple of 16 dimensions.
inline bool FitsRaw(const KvLayer& kv) {
  return kv.page_tokens % 16 == 0 && kv.head_dim % 16 == 0;
}

// A block whose pairs are stored, for many lines.
struct PairBlock {
  static constexpr uint32_t kMaxPairs = Attention::kMaxHeadDim / 2;
  static constexpr uint32_t kMaxChunks = Attention::kMaxHeadDim / 16;
  uint32_t chunks;  // groups of 16 dimensions, the last padded with zeros
  alignas(64) uint32_t keys[kMaxPairs * kGroups * 16];        // [pairs, groups, 16]
  alignas(64) uint32_t values[kBlock / 2 * kMaxChunks * 16];  // [key pairs, chunks, 16]

  void Find(const Span& span, uint32_t first_key, uint64_t any);

  PIE_AVX512_BF16 __m512i Keys(uint32_t pair, uint32_t group) const {
    return _mm512_load_si512(keys + size_t{pair * kGroups + group} * 16);
  }
  PIE_AVX512_BF16 __m512i Values(uint32_t pair, uint32_t chunk) const {
    return _mm512_load_si512(values + size_t{pair * chunks + chunk} * 16);
  }
};

}  // namespace pie::cpu::attention
