#include "backend/cpu/attention/attention_bf16_block.h"

#include <algorithm>
#include <bit>

namespace pie::cpu::attention {
namespace {

// Stand-in for the values of a key that no line sees.
alignas(64) constexpr uint16_t kZeros[Attention::kMaxHeadDim] = {};
constexpr HalfValues kNoHalves = {kZeros};
constexpr int8_t kZeroBytes[Attention::kMaxHeadDim] = {};
constexpr ByteValues kNoBytes = {kZeroBytes, kZeros};

void Place(const KeyRange& range, uint32_t key, HalfKeys& keys, HalfValues& values) {
  const Span::Place place = range.Find(key);
  keys = {place.keys, range.kv->page_tokens};
  values = {place.values};
}

void Place(const KeyRange& range, uint32_t key, ByteKeys& keys, ByteValues& values) {
  const Span::BytePlace place = range.FindBytes(key);
  keys = {place.keys, place.key_scales, range.kv->page_tokens};
  values = {place.values, place.value_scales};
}

// Returns the values `count` keys later.
HalfValues Next(const Span& span, const HalfValues& values, uint32_t count) {
  return {values.numbers + size_t{count} * span.kv->head_dim};
}
ByteValues Next(const Span& span, const ByteValues& values, uint32_t count) {
  return {values.numbers + size_t{count} * span.kv->head_dim,
          values.scales + size_t{count} * KvScales(span.kv->head_dim)};
}

HalfValues Nothing(const HalfValues&) {
  return kNoHalves;
}
ByteValues Nothing(const ByteValues&) {
  return kNoBytes;
}

// Sixteen keys gathered from pages of any size.
template <class T>
struct Gathered {
  T numbers[Attention::kMaxHeadDim * 16];
  uint16_t scales[KvScales(Attention::kMaxHeadDim) * 16];

  void Take(const HalfKeys& one, uint32_t dim, uint32_t i) {
    for (uint32_t d = 0; d < dim; ++d) numbers[d * 16 + i] = one.numbers[d * one.stride];
  }
  void Take(const ByteKeys& one, uint32_t dim, uint32_t i) {
    for (uint32_t d = 0; d < dim; ++d) numbers[d * 16 + i] = one.numbers[d * one.stride];
    for (uint32_t s = 0; s < KvScales(dim); ++s) scales[s * 16 + i] = one.scales[s * one.stride];
  }
  void View(HalfKeys& keys) const { keys = {numbers, 16}; }
  void View(ByteKeys& keys) const { keys = {numbers, scales, 16}; }
};

template <class KeysOf>
PIE_AVX512_BF16 void PairKeys(const KeysOf& keys, uint32_t dim, uint32_t* to) {
  for (uint32_t d = 0; d < dim; d += 2) {
    const __m512 second = d + 1 < dim ? keys.At(d + 1) : _mm512_setzero_ps();
    _mm512_store_si512(to + size_t{d / 2} * kGroups * 16, PairUp(keys.At(d), second));
  }
}

template <class ValuesOf>
PIE_AVX512_BF16 void PairValues(const ValuesOf& first, const ValuesOf& second, uint32_t dim,
                                uint32_t* to) {
  for (uint32_t d = 0; d < dim; d += 16) {
    const uint16_t mask = dim - d >= 16 ? 0xFFFF : LaneMask(dim - d);
    _mm512_store_si512(to + d, PairUp(first.At(d, mask), second.At(d, mask)));
  }
}

// Loads sixteen keys, of which the sequence may have fewer.
template <class KeysOf, class ValuesOf>
void LoadGroup(const Span& span, uint32_t key, uint16_t seen, uint32_t chunks, uint32_t* keys_to,
               uint32_t* values_to) {
  const uint32_t dim = span.kv->head_dim;
  KeysOf keys;
  ValuesOf values[16];
  Place(span, key, keys, values[0]);
  if (span.kv->page_tokens % 16 == 0) {
    PairKeys(keys, dim, keys_to);
    for (uint32_t i = 1; i < 16; ++i) values[i] = Next(span, values[0], i);
  } else {
    Gathered<std::remove_cvref_t<decltype(*keys.numbers)>> gathered;
    for (uint32_t i = 0; i < 16; ++i) {
      Place(span, std::min(key + i, span.end_key - 1), keys, values[i]);
      gathered.Take(keys, dim, i);
    }
    gathered.View(keys);
    PairKeys(keys, dim, keys_to);
  }
  for (uint32_t i = 0; i < 16; ++i) {
    if ((seen >> i & 1) == 0) values[i] = Nothing(values[i]);
  }
  for (uint32_t i = 0; i < 16; i += 2) {
    PairValues(values[i], values[i + 1], dim, values_to + size_t{i / 2} * chunks * 16);
  }
}

}  // namespace

template <class KeysOf, class ValuesOf>
void RawBlock<KeysOf, ValuesOf>::Find(const Span& span, uint32_t first_key, uint64_t any) {
  for (uint32_t g = 0; g < kGroups; ++g) {
    const uint32_t key = first_key + 16 * g;
    KeysOf next;
    ValuesOf next_value;
    const auto [range, later] = span.Later(first_key, key);
    Place(*range, later, next, next_value);
    next_keys[g] = next.numbers;
    next_values[g] = next_value.numbers;
    keys[g].stride = next.stride;
    const auto seen = static_cast<uint16_t>(any >> (16 * g));
    if (key >= span.end_key) continue;
    ValuesOf first;
    Place(span, key, keys[g], first);
    for (uint32_t i = 0; i < 16; ++i) {
      values[16 * g + i] = (seen >> i & 1) != 0 ? Next(span, first, i) : Nothing(first);
    }
  }
}

template struct RawBlock<HalfKeys, HalfValues>;
template struct RawBlock<ByteKeys, ByteValues>;

void PairBlock::Find(const Span& span, uint32_t first_key, uint64_t any) {
  chunks = (span.kv->head_dim + 15) / 16;
  const auto load = span.kv->type == KvType::kQ8 ? LoadGroup<ByteKeys, ByteValues>
                                                 : LoadGroup<HalfKeys, HalfValues>;
  const auto first_group = static_cast<uint32_t>(std::countr_zero(any)) / 16;
  const auto last_group = static_cast<uint32_t>(63 - std::countl_zero(any)) / 16;
  for (uint32_t g = first_group; g <= last_group; ++g) {
    load(span, first_key + 16 * g, static_cast<uint16_t>(any >> (16 * g)), chunks,
         keys + size_t{g} * 16, values + size_t{g} * 8 * chunks * 16);
  }
}

}  // namespace pie::cpu::attention
