#include "backend/cpu/attention/attention_unpack.h"

#include <algorithm>

#include "model/half.h"

namespace pie::cpu::attention {
namespace {

constexpr uint32_t kMaxDim = Attention::kMaxHeadDim;

// Unpacks `count` adjacent keys of a page, beginning with `key`, to slot `slot`.
void UnpackRun(CpuLevel level, const Span& span, uint32_t key, uint32_t count, uint32_t slot,
               uint16_t* keys, uint16_t* values) {
  const KvLayer& kv = *span.kv;
  const Span::BytePlace place = span.FindBytes(key);
  const uint32_t scale_count = KvScales(kv.head_dim);
  for (uint32_t s = 0; s < scale_count; ++s) {
    float scales[kBlock];
    for (uint32_t i = 0; i < count; ++i) {
      scales[i] = HalfToFloat(place.key_scales[size_t{s} * kv.page_tokens + i]);
    }
    const uint32_t end = std::min(kv.head_dim, (s + 1) * kKvQuantBlock);
    for (uint32_t d = s * kKvQuantBlock; d < end; ++d) {
      UnpackKv(level, place.keys + size_t{d} * kv.page_tokens, scales, count,
               keys + size_t{d} * kBlock + slot);
    }
    for (uint32_t i = 0; i < count; ++i) {
      const size_t at = size_t{i} * kv.head_dim + s * kKvQuantBlock;
      UnpackKv(level, place.values + at,
               HalfToFloat(place.value_scales[size_t{i} * scale_count + s]),
               end - s * kKvQuantBlock, values + size_t{slot} * kv.head_dim + at);
    }
  }
}

// Returns the same lines, moved to a sequence that begins with this block.
Span AtBlock(const Span& span, const KvLayer& unpacked, const PageId* page, uint32_t block) {
  Span moved = span;
  moved.next = {};
  moved.kv = &unpacked;
  moved.kv_head = 0;
  moved.pages = page;
  moved.begin_key = 0;
  moved.end_key = std::min(kBlock, span.end_key - block);
  for (uint32_t i = 0; i < span.lines; ++i) {
    moved.begin[i] = span.begin[i] > block ? span.begin[i] - block : 0;
    moved.end[i] = span.end[i] > block ? span.end[i] - block : 0;
    if (span.mask[i] == nullptr) continue;
    const size_t words = std::min<size_t>(block / kBlock, span.mask_words[i]);
    moved.mask[i] = span.mask[i] + words;
    moved.mask_words[i] = span.mask_words[i] - words;
  }
  return moved;
}

}  // namespace

void RunUnpacked(CpuLevel level, const Span& span, Kernel kernel, const Partial& out) {
  alignas(64) uint16_t memory[2 * kMaxDim * kBlock];
  const uint32_t dim = span.kv->head_dim;
  const KvLayer unpacked{.data = reinterpret_cast<std::byte*>(memory),
                         .kv_heads = 1,
                         .head_dim = dim,
                         .page_tokens = kBlock};
  const PageId page{0};
  for (uint32_t block = span.begin_key; block < span.end_key; block += kBlock) {
    bool seen = false;
    for (uint32_t i = 0; i < span.lines && !seen; ++i) seen = span.Visible(i, block) != 0;
    if (!seen) continue;
    const uint32_t end = std::min(block + kBlock, span.end_key);
    for (uint32_t key = block; key < end;) {
      const uint32_t room = span.kv->page_tokens - key % span.kv->page_tokens;
      const uint32_t count = std::min(room, end - key);
      UnpackRun(level, span, key, count, key - block, unpacked.Keys(page, 0),
                unpacked.Values(page, 0));
      key += count;
    }
    kernel(AtBlock(span, unpacked, &page, block), out);
  }
}

}  // namespace pie::cpu::attention
