// Internal to attention: the kernels that process some query lines against one span of keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/attention/attention_partial.h"

namespace pie::cpu::attention {

inline constexpr uint32_t kLines = Attention::kTileLines;
inline constexpr uint32_t kBlock = 64;  // keys that are scored together: one word of a mask

// A range of keys of one key head of a sequence, with their values.
struct KeyRange {
  const KvLayer* kv;
  uint32_t kv_head;
  const PageId* pages;
  uint32_t begin_key, end_key;  // begin: multiple of kBlock

  // Pointers to one key and its value: keys lie in the page as [head_dim, page_tokens], values as
  // [page_tokens, head_dim].
  struct Place {
    const uint16_t* keys;
    const uint16_t* values;
    uint32_t slot;
  };
  Place Find(uint32_t key) const {
    const PageId page = pages[key / kv->page_tokens];
    const uint32_t slot = key % kv->page_tokens;
    return {kv->Keys(page, kv_head) + slot, kv->Values(page, kv_head) + size_t{slot} * kv->head_dim,
            slot};
  }
  // The same for pages of bytes, with scales [scales, page_tokens] and [page_tokens, scales].
  struct BytePlace {
    const int8_t* keys;
    const uint16_t* key_scales;
    const int8_t* values;
    const uint16_t* value_scales;
  };
  BytePlace FindBytes(uint32_t key) const {
    const PageId page = pages[key / kv->page_tokens];
    const size_t slot = key % kv->page_tokens;
    return {kv->ByteKeys(page, kv_head) + slot, kv->KeyScales(page, kv_head) + slot,
            kv->ByteValues(page, kv_head) + slot * kv->head_dim,
            kv->ValueScales(page, kv_head) + slot * KvScales(kv->head_dim)};
  }
};

struct Span : KeyRange {
  uint32_t lines;
  const float* q;                // [lines, head_dim], scaled
  uint32_t begin[kLines];        // first key that a line sees …
  uint32_t end[kLines];          // … and the end of those keys
  const uint64_t* mask[kLines];  // only keys whose bit is set are seen; null: all
  size_t mask_words[kLines];
  float softcap;  // cap on scores; 0: none
  KeyRange next;  // the range that this thread will probably read next; may be empty

  // Bit i is set if the line sees key block + i.
  uint64_t Visible(uint32_t line, uint32_t block) const {
    const uint32_t limit = end[line] < end_key ? end[line] : end_key;
    if (limit <= block) return 0;
    uint64_t bits = limit - block >= kBlock ? ~uint64_t{0} : (uint64_t{1} << (limit - block)) - 1;
    if (begin[line] > block) {
      if (begin[line] - block >= kBlock) return 0;
      bits &= ~uint64_t{0} << (begin[line] - block);
    }
    if (mask[line] != nullptr) {
      bits &= block / kBlock < mask_words[line] ? mask[line][block / kBlock] : 0;
    }
    return bits;
  }
  // Returns the key one block after `key`, to be prefetched, where `first` is the first key of the
  // current block. Pages are scattered, so the hardware's prefetcher misses them.
  std::pair<const KeyRange*, uint32_t> Later(uint32_t first, uint32_t key) const {
    const bool ends = first + kBlock >= end_key && next.begin_key < next.end_key;
    const KeyRange& range = ends ? next : *this;
    const uint32_t wanted = ends ? next.begin_key + key - first : key + kBlock;
    return {&range, std::min(wanted, range.end_key - 1)};
  }
};

// Each kernel adds the span to `out`, which may already hold earlier keys of the same span. All
// read pages of halves; SpanBf16 also reads pages of bytes.
void SpanScalar(const Span& span, const Partial& out);
void SpanAvx2(const Span& span, const Partial& out);
void SpanAvx512(const Span& span, const Partial& out);
// Computes products in bfloat16.
void SpanBf16(const Span& span, const Partial& out);

}  // namespace pie::cpu::attention
