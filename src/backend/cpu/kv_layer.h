// KvLayer: where one layer's keys and values lie in the pages of a device.
//
// Within a page, as F16:
//   keys    [kv_heads, head_dim, page_tokens]   a vector register holds one dimension of 16 tokens,
//                                               so scores need no sums across lanes
//   values  [kv_heads, page_tokens, head_dim]   a vector register holds 16 dimensions of one token
// A view; the backend owns the memory. Pages that are only read may be read by any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/cpu_features.h"
#include "base/ids.h"

namespace pie::cpu {

struct KvLayer {
  uint16_t* data = nullptr;
  size_t page_stride = 0;  // numbers from one page to the next; at least PageNumbers()
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t page_tokens = 0;

  // Numbers of one layer in one page.
  size_t PageNumbers() const { return 2 * HalfPage(); }
  // Keys and values of one head in a page.
  uint16_t* Keys(PageId page, uint32_t head) const {
    return data + page.value * page_stride + size_t{head} * head_dim * page_tokens;
  }
  uint16_t* Values(PageId page, uint32_t head) const { return Keys(page, head) + HalfPage(); }

 private:
  size_t HalfPage() const { return size_t{kv_heads} * head_dim * page_tokens; }
};

// Stores one token's keys and values, both [kv_heads, head_dim], in slot `slot` of a page. Rounds
// to nearest. Different slots from different threads.
void WriteKv(CpuLevel level, const KvLayer& kv, PageId page, uint32_t slot, const float* keys,
             const float* values);

}  // namespace pie::cpu
