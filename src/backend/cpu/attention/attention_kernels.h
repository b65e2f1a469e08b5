// Inside of attention: some query lines against one span of keys. Not for other files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backend/cpu/attention/attention.h"
#include "backend/cpu/attention/attention_partial.h"

namespace pie::cpu::attention {

inline constexpr uint32_t kLines = Attention::kTileLines;
inline constexpr uint32_t kBlock = 64;  // keys that are scored together: one word of a mask

// Keys of one key head of a sequence, and the values that belong to them.
struct KeyRange {
  const KvLayer* kv;
  uint32_t kv_head;
  const PageId* pages;
  uint32_t begin_key, end_key;  // begin: multiple of kBlock

  // Keys [page_tokens of dimension 0, then 1, …] and values [page_tokens, head_dim] of the page
  // that holds a key, each from that key on.
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
  // The same of pages of bytes; scales [scales, page_tokens] and [page_tokens, scales].
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
  uint32_t begin[kLines];        // a line sees keys from here …
  uint32_t end[kLines];          // … to below this …
  const uint64_t* mask[kLines];  // … whose bits are set, if not null
  size_t mask_words[kLines];
  float softcap;  // of scores; 0 = none
  KeyRange next;  // what this thread is likely to read after this; empty if nothing

  // Bit i: the line sees key block + i.
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
  // What is read a block after key `key` of a block that begins with `first`, to be fetched early:
  // pages lie anywhere, so hardware does not see them coming.
  std::pair<const KeyRange*, uint32_t> Later(uint32_t first, uint32_t key) const {
    const bool ends = first + kBlock >= end_key && next.begin_key < next.end_key;
    const KeyRange& range = ends ? next : *this;
    const uint32_t wanted = ends ? next.begin_key + key - first : key + kBlock;
    return {&range, std::min(wanted, range.end_key - 1)};
  }
};

// What they find is added to the partial, in which earlier keys of the same span may be. They read
// pages of halves; the last one those of bytes too.
void SpanScalar(const Span& span, const Partial& out);
void SpanAvx2(const Span& span, const Partial& out);
void SpanAvx512(const Span& span, const Partial& out);
// Products of bfloat16.
void SpanBf16(const Span& span, const Partial& out);

}  // namespace pie::cpu::attention
