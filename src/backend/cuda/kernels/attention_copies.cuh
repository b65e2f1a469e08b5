// The copies that bring a tile's queries, keys and values to shared memory, for
// attention_hopper.cu: the roles of the warps that do not multiply. They run ahead as far as there
// is room.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/attention_tile.cuh"
#include "backend/cuda/kernels/bulk_copies.cuh"
#include "backend/cuda/kernels/group_products.cuh"

namespace pie::cuda {

inline constexpr uint32_t kGroupLines = 64;
inline constexpr uint32_t kEight = 8 * 128;  // bytes of eight rows
inline constexpr uint32_t kIsPart = 1U << 31;

// The lines of a tile that a warp group has.
struct LineView {
  uint32_t begin;  // keys that the line sees
  uint32_t end;
  uint32_t mask;    // offset in mask_words, or kNone
  uint32_t result;  // which of the step's results, or kIsPart | which of the partial results
};
struct GroupView {
  uint32_t begin_key;
  uint32_t end_key;
  uint32_t all_from;  // all lines see the keys [all_from, all_to), but for masks
  uint32_t all_to;
  uint32_t has_masks;
  uint32_t kv_head;
  uint32_t padding[2];
  LineView of[kGroupLines];
};

// A block's shared memory. Tiles begin at multiples of 1,024 bytes, as OperandAt requires. Of each
// pair of barriers, one signals that the data has come, and the other that no thread reads it any
// more.
template <int kDim, int kKeys, int kStages>
struct Shared {
  static constexpr uint32_t kQueryBytes = kGroupLines * kDim * 2;
  static constexpr uint32_t kTileBytes = kKeys * kDim * 2;

  char queries[2][kQueryBytes];  // of the two groups
  struct {
    char keys[kTileBytes];
    char values[kTileBytes];
  } stages[kStages];
  GroupView views[2];
  uint64_t queries_full[2], queries_free[2];
  uint64_t keys_full[kStages], keys_free[kStages];
  uint64_t values_full[kStages], values_free[kStages];
};

// A place in the ring of stages, and the parity of its barriers' phase.
template <int kStages>
struct Ring {
  uint32_t stage = 0;
  uint32_t parity = 0;

  __device__ void Next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1U;
    }
  }
};

#if PIE_HAS_WGMMA

// The blocks of the grid take the items, longest first, from left to right and back, so that all
// have about the same work.
template <class Run>
__device__ void ForEachItem(uint32_t items, Run&& run) {
  for (uint32_t round = 0; round * gridDim.x < items; ++round) {
    const uint32_t place = round % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    const uint32_t item = round * gridDim.x + place;
    if (item < items) run(item);
  }
}

// One warp: each lane asks for the boxes of some keys.
template <int kDim, int kKeys, int kStages>
__device__ void BringKeys(const Attention& a, const AttentionTile* tiles, uint32_t items,
                          const MatrixMap& lines, uint32_t box_rows,
                          Shared<kDim, kKeys, kStages>& shared) {
  static_assert(kKeys / 8 <= 32);
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t line_bytes = a.kv.line_bytes();
  const auto page_lines = static_cast<uint32_t>(a.kv.page_bytes / line_bytes);
  const auto layer_line = static_cast<uint32_t>(a.kv.layer_offset / line_bytes);
  Ring<kStages> at;
  ForEachItem(items, [&](uint32_t item) {
    const TileView view(a, tiles, item);
    for (uint32_t first = view.begin_key; first < view.tile.end_key; first += kKeys) {
      const uint32_t keys = min(static_cast<uint32_t>(kKeys), view.tile.end_key - first);
      const uint32_t boxes = (keys + box_rows - 1) / box_rows;
      uint32_t row = 0;
      if (lane < boxes) {
        const uint32_t key = first + lane * box_rows;
        const uint32_t page =
            a.kv.page_shift != kNone ? key >> a.kv.page_shift : key / a.kv.page_tokens;
        row = view.pages[page] * page_lines + layer_line + view.kv_head * a.kv.page_tokens +
              (key - page * a.kv.page_tokens);
      }
      const auto bring = [&](char* to, uint32_t from_row, uint64_t* is_free, uint64_t* is_full) {
        AwaitPhase(is_free, at.parity ^ 1U);
        if (lane == 0) ArriveExpecting(is_full, boxes * box_rows * kDim * 2);
        __syncwarp();
        if (lane >= boxes) return;
#pragma unroll
        for (uint32_t d = 0; d < kDim / 64; ++d) {
          CopyBox(to + (d * kKeys + lane * box_rows) * 128, lines, d * 64, from_row, is_full);
        }
      };
      auto& stage = shared.stages[at.stage];
      bring(stage.keys, row, &shared.keys_free[at.stage], &shared.keys_full[at.stage]);
      bring(stage.values, row + static_cast<uint32_t>(view.to_values),
            &shared.values_free[at.stage], &shared.values_full[at.stage]);
      at.Next();
    }
  });
}

// Copies keys and values through the registers of a warp group, and converts them to bfloat16.
template <int kDim, int kKeys, int kStages, bool kFp8>
__device__ void CarryKeys(const Attention& a, const AttentionTile* tiles, uint32_t items,
                          Shared<kDim, kKeys, kStages>& shared) {
  constexpr uint32_t kChunks = kFp8 ? kDim / 16 : kDim / 8;  // of 16 bytes, of a line
  constexpr uint32_t kEach = kKeys * kChunks / 128;
  const uint32_t thread = threadIdx.x % 128;
  const uint32_t chunk = thread % kChunks;
  const bool real_chunk = chunk * 16 < a.kv.line_bytes();
  constexpr uint32_t kStep = 128 / kChunks;  // keys between those of a thread
  const uint32_t own_key = thread / kChunks;
  Ring<kStages> at;
  ForEachItem(items, [&](uint32_t item) {
    const TileView view(a, tiles, item);
    const uint64_t to_value = view.ValueBytes();
    // While a block is written, the next one is loaded.
    struct Block {
      uint4 of[2][kEach];  // keys, values
      uint32_t scales[kEach];
    };
    const auto load = [&](Block& block, uint32_t first) {
    // Lanes load before any of them waits: numbers beyond the tile become zeros later.
#pragma unroll
      for (uint32_t i = 0; i < kEach; ++i) {
        const uint32_t key = min(first + own_key + i * kStep, view.tile.end_key - 1);
        const char* const from = view.KeyAt(key, real_chunk ? chunk : 0);
        block.of[0][i] = *reinterpret_cast<const uint4*>(from);
        block.of[1][i] = *reinterpret_cast<const uint4*>(from + to_value);
        if constexpr (kFp8) block.scales[i] = view.ScalesOf(key);
      }
    };
    const auto write = [&](const Block& block, uint32_t first) {
#pragma unroll
      for (uint32_t value = 0; value < 2; ++value) {
        AwaitPhase(value == 0 ? &shared.keys_free[at.stage] : &shared.values_free[at.stage],
                   at.parity ^ 1U);
        char* const tile =
            value == 0 ? shared.stages[at.stage].keys : shared.stages[at.stage].values;
#pragma unroll
        for (uint32_t i = 0; i < kEach; ++i) {
          const uint32_t key = own_key + i * kStep;
          const bool real = real_chunk && first + key < view.tile.end_key;
          const auto place = [&](uint32_t eight) {  // of eight numbers
            return reinterpret_cast<uint4*>(tile + eight / 8 * (kKeys * 128) + key * 128 +
                                            ((eight % 8 ^ (key & 7)) << 4));
          };
          const uint4 bytes = real ? block.of[value][i] : make_uint4(0, 0, 0, 0);
          if constexpr (kFp8) {
            const uint32_t scale = block.scales[i] >> (8 * value) & 0xFFU;
            const uint32_t factor = scale << 7 | scale << 23;
            const uint2 w = PairsOfE4m3(bytes.x, factor);
            const uint2 x = PairsOfE4m3(bytes.y, factor);
            const uint2 y = PairsOfE4m3(bytes.z, factor);
            const uint2 z = PairsOfE4m3(bytes.w, factor);
            *place(2 * chunk) = make_uint4(w.x, w.y, x.x, x.y);
            *place(2 * chunk + 1) = make_uint4(y.x, y.y, z.x, z.y);
          } else {
            *place(chunk) = bytes;
          }
        }
        ShowToGroupProducts();
        __syncwarp();
        if (thread % 32 == 0) {
          Arrive(value == 0 ? &shared.keys_full[at.stage] : &shared.values_full[at.stage]);
        }
      }
      at.Next();
    };
    const uint32_t end = view.tile.end_key;
    uint32_t first = view.begin_key;
    if constexpr (kFp8) {
      Block even;
      Block odd;
      if (first < end) load(even, first);
      for (; first < end; first += 2 * kKeys) {
        const uint32_t next = first + kKeys;
        if (next < end) load(odd, next);
        write(even, first);
        if (next >= end) break;
        if (next + kKeys < end) load(even, next + kKeys);
        write(odd, next);
      }
    } else {
      for (; first < end; first += kKeys) {
        Block block;
        load(block, first);
        write(block, first);
      }
    }
  });
}

// One warp: the queries of a group's lines of each tile, as soon as the group needs those of the
// tile before no more.
template <int kDim>
__device__ void BringQueries(const Attention& a, const AttentionTile* tiles, uint32_t items,
                             uint32_t group, char* queries, GroupView& group_view,
                             uint64_t* is_full, uint64_t* is_free) {
  constexpr uint32_t kChunks = kDim / 8;
  constexpr uint32_t kParts = kGroupLines / 32;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t real_chunks = a.kv.head_stride / 8;
  const uint32_t to = SharedAddress(queries);
  uint32_t parity = 1;
  ForEachItem(items, [&](uint32_t item) {
    const TileView view(a, tiles, item);
    LineView of[kParts];
    uint64_t from[kParts];
    uint32_t all_from = 0;
    uint32_t all_to = view.tile.end_key;
#pragma unroll
    for (uint32_t part = 0; part < kParts; ++part) {
      const uint32_t line = group * kGroupLines + part * 32 + lane;
      of[part] = {0, 0, kNone, kNone};
      from[part] = 0;
      if (line >= view.lines) continue;
      const TileRow row = view.rows[line / view.group];
      const uint32_t head = view.kv_head * view.group + line % view.group;
      const uint32_t limit = ArrayOf<uint32_t>(a.step, a.step->limits)[row.row];
      of[part] = {
          a.window != 0 && limit > a.window ? limit - a.window : 0, min(limit, view.tile.end_key),
          ArrayOf<uint32_t>(a.step, a.step->masks)[row.row],
          row.part == kNone ? row.row * a.heads + head : (row.part * a.heads + head) | kIsPart};
      from[part] = reinterpret_cast<uint64_t>(static_cast<const bf16*>(a.q) +
                                              (row.row * static_cast<size_t>(a.heads) + head) *
                                                  a.kv.head_stride);
      all_from = max(all_from, of[part].begin);
      all_to = min(all_to, limit);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) {
      all_from = max(all_from, __shfl_xor_sync(0xFFFFFFFFU, all_from, offset));
      all_to = min(all_to, __shfl_xor_sync(0xFFFFFFFFU, all_to, offset));
    }
    AwaitPhase(is_free, parity);
    parity ^= 1U;
#pragma unroll
    for (uint32_t part = 0; part < kParts; ++part) {
      group_view.of[part * 32 + lane] = of[part];
#pragma unroll 4
      for (uint32_t i = 0; i < kChunks; ++i) {
        const uint32_t line = (i * 32 + lane) / kChunks;
        const uint32_t chunk = lane % kChunks;
        const uint64_t start = __shfl_sync(0xFFFFFFFFU, from[part], static_cast<int>(line));
        const bool real = start != 0 && chunk < real_chunks;
        const uint32_t row = part * 32 + line;
        CopyAsync(to + chunk / 8 * (kGroupLines * 128) + row * 128 + ((chunk % 8 ^ (row & 7)) << 4),
                  real ? reinterpret_cast<const char*>(start) + chunk * 16
                       : static_cast<const char*>(a.q),
                  real);
      }
    }
    CommitCopies();
    if (lane == 0) {
      group_view.begin_key = view.begin_key;
      group_view.end_key = view.tile.end_key;
      group_view.all_from = all_from;
      group_view.all_to = all_to;
      group_view.has_masks = view.tile.has_masks;
      group_view.kv_head = view.kv_head;
    }
    AwaitCopies<0>();
    ShowToGroupProducts();
    __syncwarp();
    if (lane == 0) Arrive(is_full);
  });
}

#endif

}  // namespace pie::cuda
