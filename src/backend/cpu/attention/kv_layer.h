// KvLayer: the layout of one layer's keys and values in the pages of a device.
//
// A page holds all keys, then all values, head by head:
//   keys    [head_dim, page_tokens]   a vector register holds one dimension of 16 tokens, so scores
//                                     need no sums across lanes
//   values  [page_tokens, head_dim]   a vector register holds 16 dimensions of one token
// as F16; or as bytes with scales after them (kv_q8.h), in 9/16 of the memory:
//   key scales [scales, page_tokens], value scales [page_tokens, scales]
// KvLayer is a view; the backend owns the memory. Any thread may read pages that no thread writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "backend/cpu/attention/kv_q8.h"
#include "backend/cpu/machine/cpu_features.h"
#include "base/ids.h"

namespace pie::cpu {

enum class KvType : uint8_t { kF16, kQ8 };

std::string_view NameOf(KvType type);
// Accepts "f16", and "q8", "q8_0" or "int8".
std::optional<KvType> ParseKvType(std::string_view name);

struct KvLayer {
  std::byte* data = nullptr;
  size_t page_stride = 0;  // bytes from one page to the next; at least PageBytes()
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t page_tokens = 0;
  KvType type = KvType::kF16;

  // Bytes of one layer in one page; even.
  size_t PageBytes() const { return 2 * kv_heads * HeadBytes(); }

  // Keys and values of one head in a page.
  uint16_t* Keys(PageId page, uint32_t head) const { return At<uint16_t>(page, head); }
  uint16_t* Values(PageId page, uint32_t head) const { return At<uint16_t>(page, kv_heads + head); }
  // The same for pages of bytes, with their scales.
  int8_t* ByteKeys(PageId page, uint32_t head) const { return At<int8_t>(page, head); }
  int8_t* ByteValues(PageId page, uint32_t head) const { return At<int8_t>(page, kv_heads + head); }
  uint16_t* KeyScales(PageId page, uint32_t head) const {
    return At<uint16_t>(page, head, NumberBytes());
  }
  uint16_t* ValueScales(PageId page, uint32_t head) const {
    return At<uint16_t>(page, kv_heads + head, NumberBytes());
  }

 private:
  size_t NumberBytes() const {
    const size_t numbers = size_t{head_dim} * page_tokens;
    return type == KvType::kF16 ? numbers * sizeof(uint16_t) : (numbers + 1) / 2 * 2;
  }
  size_t HeadBytes() const {
    if (type == KvType::kF16) return NumberBytes();
    return NumberBytes() + size_t{KvScales(head_dim)} * page_tokens * sizeof(uint16_t);
  }
  template <class T>
  T* At(PageId page, uint32_t index, size_t offset = 0) const {
    return reinterpret_cast<T*>(data + page.value * page_stride + index * HeadBytes() + offset);
  }
};

// Stores the keys and values of one token, both [kv_heads, head_dim], in slot `slot` of a page,
// rounded to nearest. Threads may write different slots at the same time.
void WriteKv(CpuLevel level, const KvLayer& kv, PageId page, uint32_t slot, const float* keys,
             const float* values);

}  // namespace pie::cpu
