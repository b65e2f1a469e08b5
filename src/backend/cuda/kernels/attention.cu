#include "backend/cuda/kernels/attention.h"

#include <algorithm>
#include <new>

#include "backend/cuda/kernels/attention_tile.cuh"

namespace pie::cuda {
namespace {

// Address of a 16-byte chunk of a row. Chunks are permuted so that eight rows of one column do not
// meet in the same banks.
template <int kDim>
__device__ uint32_t ChunkAt(uint32_t tile, uint32_t row, uint32_t chunk) {
  return tile + row * (kDim * 2) + ((chunk ^ (row & 7)) << 4);
}

// The shared memory of a kernel of AttentionKernel's shape.
template <int kDim, int kLineWarps, int kKeyWarps, int kStages, bool kFp8>
struct AttentionShape {
  static constexpr int kThreads = 32 * kLineWarps * kKeyWarps;
  static constexpr int kLines = 16 * kLineWarps;
  static constexpr bool kKeepQueries = kDim <= 128;  // in registers
  // Blocks of the next tile are copied while the last ones of a tile are used. Its queries come
  // with them, so there are as many places for queries as tiles under way.
  static constexpr bool kAcross = kKeepQueries;
  static constexpr int kQueryPlaces = kAcross ? kStages : 1;
  static constexpr uint32_t kQueryBytes = kLines * kDim * 2;
  static constexpr uint32_t kTileBytes = kKeyBlock * kDim * 2;
  static constexpr uint32_t kBlockBytes = 2 * kTileBytes;  // keys and values
  static constexpr uint32_t kBlocksAt = kQueryPlaces * kQueryBytes;
  // In fp8, blocks come to places of half the size, and are made bfloat16 in one place.
  static constexpr uint32_t kRawAt = kBlocksAt + kBlockBytes;
  // The warps' results are merged in a block's place: their numbers there, the rest at the end.
  static constexpr uint32_t kMergedAt =
      kFp8 ? kRawAt + kStages * kBlockBytes / 2 : kBlocksAt + kStages * kBlockBytes;
  static_assert(kKeyWarps == 1 || !kFp8);
  static_assert(kKeyWarps == 1 || kKeyWarps * kLines * kDim * sizeof(float) <= kBlockBytes);
  static constexpr uint32_t kBytes =
      kMergedAt + (kKeyWarps > 1 ? 2 * kKeyWarps * kLines * sizeof(float) : 0);
};

// kFp8: keys and values are fp8. Blocks of them are copied in stages as they are, and converted to
// bfloat16 in one tile, which several warps with different lines read. Small tiles have a kernel of
// their own (attention_fp8.cu).
template <int kDim, int kLineWarps, int kKeyWarps, int kStages, int kBlocks, bool kFp8>
__global__ void __launch_bounds__(32 * kLineWarps * kKeyWarps, kBlocks)
    AttentionKernel(const Attention a, bool large) {
  using Shape = AttentionShape<kDim, kLineWarps, kKeyWarps, kStages, kFp8>;
  constexpr int kThreads = Shape::kThreads;
  constexpr int kLines = Shape::kLines;
  constexpr int kChunks = kDim / 8;
  constexpr int kWarpKeys = kKeyBlock / kKeyWarps;
  constexpr int kScoreTiles = kWarpKeys / 8;
  constexpr uint32_t kTileBytes = Shape::kTileBytes;
  constexpr bool kKeepQueries = Shape::kKeepQueries;
  PIE_DYNAMIC_SHARED(char, shared);
  const uint32_t q_tiles = SharedAddress(shared);
  const uint32_t kv_tiles = q_tiles + Shape::kBlocksAt;
  const uint32_t raw_tiles = q_tiles + Shape::kRawAt;  // in fp8
  using Raw = Fp8Chunks<kDim, kThreads>;

  LetNextStart();
  const StepHeader* const step = a.step;
  const uint32_t tiles = large ? step->large_tiles : step->small_tiles;
  const AttentionTile* const tile_list =
      ArrayOf<AttentionTile>(step, step->tiles) + (large ? step->small_tiles : 0);
  const uint32_t items = tiles * a.kv.kv_heads;
  const uint32_t real_chunks = a.kv.head_stride / 8;
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int line_warp = warp % kLineWarps;
  const int key_warp = warp / kLineWarps;
  const float to_log2 = ToLog2(a);
  if (blockIdx.x >= items) {
    WaitForInputs();
    return;
  }
  // The tile whose blocks are copied next, which may be after the one that is computed.
  TileView ahead(a, tile_list, blockIdx.x);
  uint32_t ahead_item = blockIdx.x;
  uint32_t ahead_block = 0;
  uint32_t ahead_place = 0;  // of its queries
  uint32_t fetched = 0;      // blocks of all tiles
  ahead.BringFirstKeys();
  WaitForInputs();

  const auto fetch_queries = [&] {
    for (uint32_t i = threadIdx.x; i < kLines * kChunks; i += kThreads) {
      const uint32_t line = i / kChunks;
      const uint32_t chunk = i % kChunks;
      const bool real = line < ahead.lines && chunk < real_chunks;
      const void* const from = real ? ahead.QueryAt(line, chunk) : a.q;
      CopyAsync(ChunkAt<kDim>(q_tiles + ahead_place * Shape::kQueryBytes, line, chunk), from, real);
    }
  };
  // Goes to the tile of an item. The copies of its queries belong to the next group. A tile without
  // keys has no place for queries.
  const auto go_to = [&](uint32_t item) {
    ahead_item = item;
    ahead_block = 0;
    if (item >= items) return;
    if (item != blockIdx.x) new (&ahead) TileView(a, tile_list, item);
    if (ahead.blocks == 0) return;
    fetch_queries();
    if (++ahead_place == Shape::kQueryPlaces) ahead_place = 0;
  };
  // Begins the copies of one block, a group, if there is any left.
  const auto fetch = [&] {
    if (Shape::kAcross) {
      while (ahead_item < items && ahead_block == ahead.blocks) go_to(ahead_item + gridDim.x);
    }
    const uint32_t block = ahead_block;
    if (ahead_item < items && block < ahead.blocks) {
      if (kFp8) {
        Raw::Fetch(ahead, block, raw_tiles + fetched % kStages * Raw::kBytes);
      } else {
        const uint32_t to = kv_tiles + fetched % kStages * Shape::kBlockBytes;
#pragma unroll
        for (int i = 0; i < kKeyBlock * kChunks / kThreads; ++i) {
          const uint32_t at = threadIdx.x + i * kThreads;
          const uint32_t row = at / kChunks;
          const uint32_t chunk = at % kChunks;
          const uint32_t key = ahead.begin_key + block * kKeyBlock + row;
          const bool real = key < ahead.tile.end_key && chunk < real_chunks;
          const char* const from = real ? ahead.KeyAt(key, chunk) : ahead.keys;
          CopyAsync(ChunkAt<kDim>(to, row, chunk), from, real);
          CopyAsync(ChunkAt<kDim>(to + kTileBytes, row, chunk),
                    real ? from + ahead.ValueBytes() : from, real);
        }
      }
      ++ahead_block;
      ++fetched;
    }
    CommitCopies();
  };

  go_to(blockIdx.x);
#pragma unroll
  for (int i = 0; i < kStages - 1; ++i) fetch();
  uint32_t stage = 0;  // of the next block that is computed
  uint32_t place = 0;  // of the tile's queries
  for (uint32_t item = blockIdx.x; item < items; item += gridDim.x) {
    const TileView view(a, tile_list, item);
    const uint32_t blocks = view.blocks;
    if (!Shape::kAcross && item != blockIdx.x) {
      fetched = stage;
      go_to(item);
#pragma unroll
      for (int i = 0; i < kStages - 1; ++i) fetch();
    }
    const uint32_t q_tile = q_tiles + place * Shape::kQueryBytes;
    if (blocks > 0 && ++place == Shape::kQueryPlaces) place = 0;
    Raw raw;
    if constexpr (kFp8) raw.LoadScales(view, 0);

    Line of[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) of[i] = view.LineOf(line_warp * 16 + lane / 4 + i * 8);

    float out[kDim / 8][4] = {};
    uint32_t queries[kKeepQueries ? kDim / 16 : 1][4];
    const uint32_t query_row = line_warp * 16 + lane / 8 % 2 * 8 + lane % 8;

    for (uint32_t block = 0; block < blocks; ++block) {
      AwaitCopies<kStages - 2>();
      __syncthreads();
      if constexpr (kFp8) {  // a thread converts the numbers that it has copied itself
        raw.Convert(shared + Shape::kRawAt + stage * Raw::kBytes,
                    [&](uint32_t key, uint32_t chunk, uint32_t value) {
                      const uint32_t tile = kv_tiles + value * kTileBytes;
                      return shared + (ChunkAt<kDim>(tile, key, chunk) - q_tiles);
                    });
        raw.LoadScales(view, block + 1);
        __syncthreads();
      }
      if (kKeepQueries && block == 0) {
#pragma unroll
        for (int d = 0; d < kDim / 16; ++d) {
          LoadMatrices(queries[kKeepQueries ? d : 0],
                       ChunkAt<kDim>(q_tile, query_row, d * 2 + lane / 16));
        }
      }
      fetch();
      const uint32_t k_tile = kFp8 ? kv_tiles : kv_tiles + stage * Shape::kBlockBytes;
      const uint32_t v_tile = k_tile + kTileBytes;
      if (++stage == kStages) stage = 0;

      // The keys of the next step are loaded while this one is multiplied.
      float scores[kScoreTiles][4] = {};
      uint32_t k[2][kScoreTiles / 2][4];
      const auto load_keys = [&](int d) {
#pragma unroll
        for (int n = 0; n < kScoreTiles / 2; ++n) {
          const uint32_t row = key_warp * kWarpKeys + n * 16 + lane / 16 * 8 + lane % 8;
          LoadMatrices(k[d % 2][n], ChunkAt<kDim>(k_tile, row, d * 2 + lane / 8 % 2));
        }
      };
      load_keys(0);
#pragma unroll
      for (int d = 0; d < kDim / 16; ++d) {
        if (d + 1 < kDim / 16) load_keys(d + 1);
        if constexpr (!kKeepQueries) {
          LoadMatrices(queries[0], ChunkAt<kDim>(q_tile, query_row, d * 2 + lane / 16));
        }
        const uint32_t(&q)[4] = queries[kKeepQueries ? d : 0];
#pragma unroll
        for (int n = 0; n < kScoreTiles; n += 2) {
          const uint32_t(&own)[4] = k[d % 2][n / 2];
          Mma(scores[n], q[0], q[1], q[2], q[3], own[0], own[1]);
          Mma(scores[n + 1], q[0], q[1], q[2], q[3], own[2], own[3]);
        }
      }

      const uint32_t first_key = view.begin_key + block * kKeyBlock + key_warp * kWarpKeys;
      float shrinks[2];
      Weigh(a, view.AllSee(block), first_key, to_log2, of, scores, shrinks);
      Shrink(out, shrinks);
#pragma unroll
      for (int n = 0; n < kScoreTiles; n += 2) {
        const uint32_t p0 = PackBf16(scores[n][0], scores[n][1]);
        const uint32_t p1 = PackBf16(scores[n][2], scores[n][3]);
        const uint32_t p2 = PackBf16(scores[n + 1][0], scores[n + 1][1]);
        const uint32_t p3 = PackBf16(scores[n + 1][2], scores[n + 1][3]);
        const uint32_t row = key_warp * kWarpKeys + n * 8 + lane / 8 % 2 * 8 + lane % 8;
        uint32_t v[2][4];
        LoadTransposed(v[0], ChunkAt<kDim>(v_tile, row, lane / 16));
#pragma unroll
        for (int d = 0; d < kDim / 8; d += 2) {
          if (d + 2 < kDim / 8) {
            LoadTransposed(v[(d / 2 + 1) % 2], ChunkAt<kDim>(v_tile, row, d + 2 + lane / 16));
          }
          const uint32_t(&own)[4] = v[d / 2 % 2];
          Mma(out[d], p0, p1, p2, p3, own[0], own[1]);
          Mma(out[d + 1], p0, p1, p2, p3, own[2], own[3]);
        }
      }
    }
    Finish(to_log2, of);

    if constexpr (kKeyWarps == 1) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const uint32_t line = line_warp * 16 + lane / 4 + i * 8;
        if (line >= view.lines) continue;
#pragma unroll
        for (int d = 0; d < kDim / 8; ++d) {
          view.Write(line, d * 8 + lane % 4 * 2, of[i].most, of[i].sum, out[d][2 * i],
                     out[d][2 * i + 1]);
        }
      }
    } else {
      // The warps' results go through the place of the last block, which is filled again after it.
      const uint32_t last = (stage + kStages - 1) % kStages;
      auto* const numbers =
          reinterpret_cast<float*>(shared + Shape::kBlocksAt + last * Shape::kBlockBytes);
      auto* const mosts = reinterpret_cast<float*>(shared + Shape::kMergedAt);
      float* const sums = mosts + kKeyWarps * 16;
      __syncthreads();
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int line = lane / 4 + i * 8;
        if (lane % 4 == 0) {
          mosts[key_warp * 16 + line] = of[i].most;
          sums[key_warp * 16 + line] = of[i].sum;
        }
#pragma unroll
        for (int d = 0; d < kDim / 8; ++d) {
          *reinterpret_cast<float2*>(
              &numbers[(key_warp * 16 + line) * kDim + d * 8 + lane % 4 * 2]) =
              make_float2(out[d][2 * i], out[d][2 * i + 1]);
        }
      }
      __syncthreads();
      for (uint32_t i = threadIdx.x; i < view.lines * (kDim / 2); i += kThreads) {
        const uint32_t line = i / (kDim / 2);
        const uint32_t column = i % (kDim / 2) * 2;
        float most = -INFINITY;
        for (int w = 0; w < kKeyWarps; ++w) most = fmaxf(most, mosts[w * 16 + line]);
        const float base = most == -INFINITY ? 0.0F : most;
        float sum = 0;
        float x = 0;
        float y = 0;
        for (int w = 0; w < kKeyWarps; ++w) {
          const float factor = exp2f(mosts[w * 16 + line] - base);
          sum += factor * sums[w * 16 + line];
          const float2 pair =
              *reinterpret_cast<const float2*>(&numbers[(w * 16 + line) * kDim + column]);
          x += factor * pair.x;
          y += factor * pair.y;
        }
        view.Write(line, column, most, sum, x, y);
      }
    }
    __syncthreads();  // before the places are used again
  }
}

constexpr uint32_t kMergeThreads = 128;

// A block has a row and some of its heads. A thread has two neighbouring numbers, and every part's
// numbers are loaded independently.
__global__ void __launch_bounds__(kMergeThreads) MergeKernel(const Attention a) {
  __shared__ float weights[kMergeThreads];
  LetNextStart();
  const uint32_t row = blockIdx.x;
  const RowParts parts =
      row < a.step->rows ? ArrayOf<RowParts>(a.step, a.step->row_parts)[row] : RowParts{0, 0};
  WaitForInputs();
  if (parts.count == 0) return;
  const size_t stride = static_cast<size_t>(a.heads) * a.kv.head_stride;
  const uint32_t d = threadIdx.x * 2;
  for (uint32_t head = blockIdx.y; head < a.heads; head += gridDim.y) {
    const float* const logs = a.part_logs + static_cast<size_t>(parts.first) * a.heads + head;
    const float* const numbers =
        a.parts + (static_cast<size_t>(parts.first) * a.heads + head) * a.kv.head_stride;
    float most = -INFINITY;
    float total = 0;
    float x = 0;
    float y = 0;
    for (uint32_t first = 0; first < parts.count; first += blockDim.x) {
      const uint32_t count = min(blockDim.x, parts.count - first);
      __syncthreads();
      if (threadIdx.x < count) weights[threadIdx.x] = logs[(first + threadIdx.x) * a.heads];
      __syncthreads();
      float now = most;
      for (uint32_t i = 0; i < count; ++i) now = fmaxf(now, weights[i]);
      const float base = now == -INFINITY ? 0.0F : now;
      const float shrink = exp2f(most - base);
      most = now;
      total *= shrink;
      x *= shrink;
      y *= shrink;
#pragma unroll 8
      for (uint32_t i = 0; i < count; ++i) {
        const float weight = exp2f(weights[i] - base);
        total += weight;
        if (d < a.kv.head_stride) {
          const float2 pair = *reinterpret_cast<const float2*>(numbers + (first + i) * stride + d);
          x += weight * pair.x;
          y += weight * pair.y;
        }
      }
    }
    if (a.sinks != nullptr && most != -INFINITY) total += exp2f(a.sinks[head] * kLog2E - most);
    const float inverse = total > 0 ? 1 / total : 0.0F;
    if (d < a.kv.head_stride) {
      bf16* const out = static_cast<bf16*>(a.out) +
                        (row * static_cast<size_t>(a.heads) + head) * a.kv.head_stride + d;
      *reinterpret_cast<uint32_t*>(out) = PackBf16(x * inverse, y * inverse);
    }
  }
}

template <int kDim, int kLineWarps, int kKeyWarps, int kStages, int kBlocks, bool kFp8>
void RunKind(const Attention& attention, bool large, int processors, Stream stream) {
  const auto kernel = AttentionKernel<kDim, kLineWarps, kKeyWarps, kStages, kBlocks, kFp8>;
  constexpr size_t kShared = AttentionShape<kDim, kLineWarps, kKeyWarps, kStages, kFp8>::kBytes;
  AllowShared(kernel, kShared);
  Launch(kernel, dim3(processors * kBlocks), dim3(32 * kLineWarps * kKeyWarps), kShared, stream,
         attention, large);
}

// kBlocks: blocks of a multiprocessor.
template <int kDim, int kLineWarps, int kKeyWarps, int kStages, int kBlocks>
void RunTiles(const Attention& attention, bool large, int processors, Stream stream) {
  if (attention.kv.fp8) {
    RunKind<kDim, kLineWarps, kKeyWarps, kStages, kBlocks, true>(attention, large, processors,
                                                                 stream);
  } else {
    RunKind<kDim, kLineWarps, kKeyWarps, kStages, kBlocks, false>(attention, large, processors,
                                                                  stream);
  }
}

}  // namespace

void RunSmallTiles(const Attention& attention, int processors, Stream stream) {
  const uint32_t size = attention.kv.head_stride;
  if (attention.fixed_order) {  // a line's keys belong to one warp, as in large tiles; others load
    if (size <= 64) {
      RunTiles<64, 4, 1, 3, 2>(attention, false, processors, stream);
    } else if (size <= 128) {
      RunTiles<128, 4, 1, 2, 2>(attention, false, processors, stream);
    } else {
      RunTiles<256, 4, 1, 2, 1>(attention, false, processors, stream);
    }
  } else if (attention.kv.fp8) {
    RunFp8Tiles(attention, processors, stream);
  } else if (size <= 64) {
    RunKind<64, 1, 4, 4, 2, false>(attention, false, processors, stream);
  } else if (size <= 128) {
    RunKind<128, 1, 4, 3, 2, false>(attention, false, processors, stream);
  } else {
    RunKind<256, 1, 4, 2, 1, false>(attention, false, processors, stream);
  }
}

void RunLargeTiles(const Attention& attention, int processors, Stream stream) {
  const uint32_t size = attention.kv.head_stride;
  if (has_group_products && !attention.fixed_order && size <= 128) {
    RunHopperTiles(attention, processors, stream);
  } else if (size <= 64) {
    RunTiles<64, 8, 1, 3, 2>(attention, true, processors, stream);
  } else if (size <= 128) {
    RunTiles<128, 8, 1, 2, 1>(attention, true, processors, stream);
  } else {
    RunTiles<256, 4, 1, 2, 1>(attention, true, processors, stream);
  }
}

void RunMergeParts(const Attention& attention, uint32_t rows, Stream stream) {
  const uint32_t threads = attention.kv.head_stride > 128 ? 128 : 64;
  // As many blocks as run at once: most rows of a long prompt have nothing to merge.
  const uint32_t each = static_cast<uint32_t>(processors) * 32 / std::max(rows, 1U);
  Launch(MergeKernel, dim3(rows, std::clamp(each, 1U, attention.heads)), dim3(threads), 0, stream,
         attention);
}

}  // namespace pie::cuda
