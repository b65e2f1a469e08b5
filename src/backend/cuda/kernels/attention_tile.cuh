// Shared by the kernels of attention: where a tile's numbers are, the running softmax of the lines
// of a thread, and how results are written. A thread has two lines of every 16, in the layout of a
// tensor core's result: numbers 0 and 1 of a group of four belong to the first, 2 and 3 to the
// second, 8 lines below.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/packed.cuh"

namespace pie::cuda {

inline constexpr float kLog2E = 1.44269504088896341F;

// Running softmax of a line.
struct Line {
  float most = -INFINITY;  // of the scores so far
  float sum = 0;           // of this thread's weights
  uint32_t end = 0;        // keys that the line sees: [begin, end) without those that mask forbids
  uint32_t begin = 0;
  const uint32_t* mask = nullptr;

  __device__ bool Sees(uint32_t key) const {
    if (key < begin || key >= end) return false;
    return mask == nullptr || (mask[key / 32] >> (key % 32) & 1U) != 0;
  }
};

// A tile and one key head.
struct TileView {
  __device__ TileView(const Attention& attention, const AttentionTile* list, uint32_t item)
      : a(attention),
        tile(list[item / attention.kv.kv_heads]),
        kv_head(item % attention.kv.kv_heads),
        group(attention.heads / attention.kv.kv_heads),
        lines(tile.rows * group),
        rows(ArrayOf<TileRow>(attention.step, attention.step->tile_rows) + tile.first_row),
        pages(ArrayOf<uint32_t>(attention.step, attention.step->pages) + tile.first_page),
        keys(static_cast<const char*>(attention.kv.data) + attention.kv.layer_offset),
        to_values(static_cast<uint64_t>(attention.kv.kv_heads) * attention.kv.page_tokens),
        begin_key(tile.begin_key) {
    // With a window, keys before the earliest row's window are not read.
    if (a.window != 0) {
      const uint32_t first = tile.all_see > a.window ? tile.all_see - a.window : 0;
      begin_key = max(begin_key, min(first, tile.end_key) / kKeyBlock * kKeyBlock);
    }
    blocks = tile.end_key > begin_key ? (tile.end_key - begin_key + kKeyBlock - 1) / kKeyBlock : 0;
  }

  // The layer's part of a page, and a key's line there; that of its value is `to_values` further.
  struct Place {
    const char* layer;
    uint64_t line;
  };
  __device__ Place PlaceOf(uint32_t key) const {
    const uint32_t page =
        a.kv.page_shift != kNone ? key >> a.kv.page_shift : key / a.kv.page_tokens;
    return {keys + pages[page] * a.kv.page_bytes,
            static_cast<uint64_t>(kv_head) * a.kv.page_tokens + (key - page * a.kv.page_tokens)};
  }
  // 16 bytes of a key in the tile's range; those of its value are to_values × line_bytes further.
  __device__ const char* KeyAt(uint32_t key, uint32_t chunk) const {
    const Place place = PlaceOf(key);
    return place.layer + place.line * a.kv.line_bytes() + chunk * 16;
  }
  __device__ uint64_t ValueBytes() const { return to_values * a.kv.line_bytes(); }
  // The scales of a key and its value, as bytes 0 and 1.
  __device__ uint32_t ScalesOf(uint32_t key) const {
    const Place place = PlaceOf(key);
    const auto* const scales = reinterpret_cast<const uint8_t*>(place.layer + a.kv.scales_at());
    return scales[place.line] | static_cast<uint32_t>(scales[place.line + to_values]) << 8;
  }

  __device__ const bf16* QueryAt(uint32_t line, uint32_t chunk) const {
    const size_t head = kv_head * group + line % group;
    return static_cast<const bf16*>(a.q) +
           (rows[line / group].row * static_cast<size_t>(a.heads) + head) * a.kv.head_stride +
           chunk * 8;
  }

  // Brings the first keys and values into the cache. Before WaitForInputs: the cache is where the
  // kernel before writes those of this step.
  __device__ void BringFirstKeys() const {
    constexpr uint32_t kKeys = 2 * kKeyBlock;
    const uint32_t bytes = a.kv.line_bytes();
    for (uint32_t i = threadIdx.x; i < kKeys && begin_key + i < tile.end_key; i += blockDim.x) {
      const char* const key = KeyAt(begin_key + i, 0);
      BringToCache(key, bytes);
      BringToCache(key + ValueBytes(), bytes);
    }
  }

  __device__ Line LineOf(uint32_t line) const {
    Line of;
    if (line >= lines) return of;
    const uint32_t row = rows[line / group].row;
    const uint32_t limit = ArrayOf<uint32_t>(a.step, a.step->limits)[row];
    const uint32_t mask = ArrayOf<uint32_t>(a.step, a.step->masks)[row];
    of.end = min(limit, tile.end_key);
    of.begin = a.window != 0 && limit > a.window ? limit - a.window : 0;
    if (mask != kNone) of.mask = ArrayOf<uint32_t>(a.step, a.step->mask_words) + mask;
    return of;
  }

  // True if every line sees every key of the block.
  __device__ bool AllSee(uint32_t block) const {
    return a.window == 0 && tile.has_masks == 0 &&
           begin_key + (block + 1) * kKeyBlock <= tile.all_see;
  }

  // Two neighbouring numbers of a line's result: the row's output itself, or a partial result.
  __device__ void Write(uint32_t line, uint32_t column, float most, float sum, float x,
                        float y) const {
    const TileRow to = rows[line / group];
    const size_t head = kv_head * group + line % group;
    if (column >= a.kv.head_stride) return;
    if (to.part == kNone) {
      if (a.sinks != nullptr && most != -INFINITY) sum += exp2f(a.sinks[head] * kLog2E - most);
      const float factor = sum > 0 ? 1 / sum : 0.0F;
      bf16* const at = static_cast<bf16*>(a.out) +
                       (to.row * static_cast<size_t>(a.heads) + head) * a.kv.head_stride + column;
      *reinterpret_cast<uint32_t*>(at) = PackBf16(x * factor, y * factor);
      return;
    }
    const size_t part = to.part * static_cast<size_t>(a.heads) + head;
    const float factor = sum > 0 ? 1 / sum : 0.0F;
    float* const at = a.parts + part * a.kv.head_stride + column;
    *reinterpret_cast<float2*>(at) = make_float2(x * factor, y * factor);
    if (column == 0) a.part_logs[part] = sum > 0 ? most + log2f(sum) : -INFINITY;
  }

  const Attention& a;
  const AttentionTile tile;
  const uint32_t kv_head;
  const uint32_t group;  // query heads of a key head
  const uint32_t lines;
  const TileRow* const rows;
  const uint32_t* const pages;
  const char* const keys;    // of the layer, in page 0
  const uint64_t to_values;  // lines
  uint32_t begin_key;
  uint32_t blocks;  // of keys
};

// Keys and values in fp8: each thread copies some of a block's 16-byte chunks to shared memory, and
// makes them bfloat16 in the tiles that the products read. The scales are loaded a block ahead.
template <int kDim, int kThreads>
struct Fp8Chunks {
  static constexpr uint32_t kChunks = kDim / 16;  // of a line
  static constexpr uint32_t kItems = kKeyBlock * kChunks / kThreads;
  static constexpr uint32_t kBytes = 2 * kKeyBlock * kDim;  // keys and values of a block

  uint32_t scales[kItems];

  __device__ static uint32_t KeyOf(uint32_t i) { return (threadIdx.x + i * kThreads) / kChunks; }
  __device__ static uint32_t ChunkOf(uint32_t i) { return (threadIdx.x + i * kThreads) % kChunks; }

  __device__ void LoadScales(const TileView& view, uint32_t block) {
#pragma unroll
    for (uint32_t i = 0; i < kItems; ++i) {
      const uint32_t key = view.begin_key + block * kKeyBlock + KeyOf(i);
      scales[i] = key < view.tile.end_key ? view.ScalesOf(key) : 0U;
    }
  }
  // Begins to copy a block to `to`, an address in shared memory.
  __device__ static void Fetch(const TileView& view, uint32_t block, uint32_t to) {
#pragma unroll
    for (uint32_t i = 0; i < kItems; ++i) {
      const uint32_t key = view.begin_key + block * kKeyBlock + KeyOf(i);
      const uint32_t chunk = ChunkOf(i);
      const bool real = key < view.tile.end_key && chunk * 16 < view.a.kv.line_bytes();
      const char* const from = real ? view.KeyAt(key, chunk) : view.keys;
      const uint32_t place = to + (threadIdx.x + i * kThreads) * 16;
      CopyAsync(place, from, real);
      CopyAsync(place + kBytes / 2, real ? from + view.ValueBytes() : from, real);
    }
  }
  // Converts the numbers that this thread has copied to `from`. place(key, chunk, value) is where 8
  // numbers go.
  template <class Place>
  __device__ void Convert(const char* from, Place&& place) const {
#pragma unroll
    for (uint32_t i = 0; i < kItems; ++i) {
#pragma unroll
      for (uint32_t value = 0; value < 2; ++value) {
        const uint4 bytes = *reinterpret_cast<const uint4*>(from + value * (kBytes / 2) +
                                                            (threadIdx.x + i * kThreads) * 16);
        const uint32_t scale = scales[i] >> (8 * value) & 0xFFU;
        const uint32_t factor = scale << 7 | scale << 23;
        const uint2 a = PairsOfE4m3(bytes.x, factor);
        const uint2 b = PairsOfE4m3(bytes.y, factor);
        const uint2 c = PairsOfE4m3(bytes.z, factor);
        const uint2 d = PairsOfE4m3(bytes.w, factor);
        const uint32_t key = KeyOf(i);
        const uint32_t chunk = 2 * ChunkOf(i);
        *reinterpret_cast<uint4*>(place(key, chunk, value)) = make_uint4(a.x, a.y, b.x, b.y);
        *reinterpret_cast<uint4*>(place(key, chunk + 1, value)) = make_uint4(c.x, c.y, d.x, d.y);
      }
    }
  }
};

// Makes weights of the scores of 8 × kTiles keys from `first_key` on, in place, and adds them to
// the lines' sums. The sums so far have to be multiplied by `shrinks`.
template <int kTiles>
__device__ void Weigh(const Attention& a, bool all_see, uint32_t first_key, float to_log2,
                      Line (&of)[2], float (&scores)[kTiles][4], float (&shrinks)[2]) {
  const int lane = threadIdx.x % 32;
  const auto each_score = [&](auto&& change) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 4; ++i) change(scores[n][i], n, i);
    }
  };
  // Rare cases are kept apart, so that the usual instructions are close together.
  if (a.softcap != 0) {
    each_score(
        [&](float& score, int, int) { score = a.softcap * tanhf(score * a.scale / a.softcap); });
  }
  if (!all_see) {
    each_score([&](float& score, int n, int i) {
      if (!of[i / 2].Sees(first_key + n * 8 + lane % 4 * 2 + i % 2)) score = -INFINITY;
    });
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float most = of[i].most;
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
      most = fmaxf(most, fmaxf(scores[n][2 * i], scores[n][2 * i + 1]));
    }
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
    most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
    const float base = most == -INFINITY ? 0.0F : most * to_log2;
    shrinks[i] = Exp2(of[i].most * to_log2 - base);
    of[i].most = most;
    of[i].sum *= shrinks[i];
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float weight = Exp2(fmaf(scores[n][2 * i + j], to_log2, -base));
        scores[n][2 * i + j] = weight;
        of[i].sum += weight;
      }
    }
  }
}

// Multiplies the sums so far by `shrinks`. Usually no new key is the best so far.
template <int kTiles>
__device__ void Shrink(float (&out)[kTiles][4], const float (&shrinks)[2]) {
  if (!__any_sync(0xFFFFFFFFU, shrinks[0] != 1 || shrinks[1] != 1)) return;
#pragma unroll
  for (int d = 0; d < kTiles; ++d) {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[d][i] *= shrinks[i / 2];
  }
}

// At the end: `most` becomes a power of two's exponent, and `sum` that of all threads of the line.
__device__ inline void Finish(float to_log2, Line (&of)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    of[i].most *= to_log2;
    of[i].sum += __shfl_xor_sync(0xFFFFFFFFU, of[i].sum, 1);
    of[i].sum += __shfl_xor_sync(0xFFFFFFFFU, of[i].sum, 2);
  }
}

// Scores become powers of two by this factor.
__device__ inline float ToLog2(const Attention& a) {
  return a.softcap == 0 ? a.scale * kLog2E : kLog2E;
}

}  // namespace pie::cuda
