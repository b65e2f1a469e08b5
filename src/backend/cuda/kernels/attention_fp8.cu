// Attention of small tiles to keys and values in fp8.
//
// Each warp has 16 keys of every block. A warp copies the lines of its keys to shared memory
// unchanged, waits for its own copies only, and makes the operands of its products in registers. So
// the warps synchronise only where a tile begins and ends.
#include <new>

#include "backend/cuda/kernels/attention.h"
#include "backend/cuda/kernels/attention_tile.cuh"
#include "backend/cuda/kernels/fp8_products.cuh"

namespace pie::cuda {
namespace {

// kStages: how many blocks of keys are being copied or used at a time. kBlocks: thread blocks on a
// multiprocessor. kAcross: the first blocks of the next tile are copied while the last ones of this
// tile are used. In that case the warps' results have memory of their own, so fewer thread blocks
// fit on a multiprocessor.
template <int kDim>
struct Sizes;
template <>
struct Sizes<64> {
  static constexpr int kStages = 4;
  static constexpr int kBlocks = 4;
  static constexpr bool kAcross = false;
};
template <>
struct Sizes<128> {
  static constexpr int kStages = 3;
  static constexpr int kBlocks = 4;
  static constexpr bool kAcross = false;
};
template <>
struct Sizes<256> {
  static constexpr int kStages = 3;
  static constexpr int kBlocks = 2;
  static constexpr bool kAcross = false;
};

constexpr int kWarps = kKeyBlock / kWarpKeys;
constexpr int kThreads = 32 * kWarps;
constexpr uint32_t kLines = kSmallTileLines;

// The layout of a block's shared memory.
template <int kDim>
struct Shape {
  static constexpr int kStages = Sizes<kDim>::kStages;
  static constexpr bool kAcross = Sizes<kDim>::kAcross;
  static constexpr uint32_t kTileBytes = kKeyBlock * kDim;  // values are after keys
  static constexpr uint32_t kRowNumbers = kDim + 16;        // of results: rows begin in other banks
  static constexpr uint32_t kFactorsAt = kLines * kDim * 2;  // after the queries
  static constexpr uint32_t kLinesAt = kFactorsAt + kLines * sizeof(float);
  static constexpr uint32_t kMostsAt = kLinesAt + kLines * sizeof(Line);
  static constexpr uint32_t kSumsAt = kMostsAt + kWarps * kLines * sizeof(float);
  static constexpr uint32_t kBlocksAt =
      (kSumsAt + kWarps * kLines * sizeof(float) + 127) / 128 * 128;
  static constexpr uint32_t kCopiedBytes = kStages * 2 * kTileBytes;
  static constexpr uint32_t kResultsAt = kAcross ? kBlocksAt + kCopiedBytes : kBlocksAt;
  static constexpr uint32_t kEnd = kResultsAt + kWarps * kLines * kRowNumbers * sizeof(float);
  static constexpr uint32_t kBytes =
      kEnd > kBlocksAt + kCopiedBytes ? kEnd : kBlocksAt + kCopiedBytes;
  static_assert(kStages >= 2);
  static_assert(Sizes<kDim>::kBlocks * (kBytes + 1024) <= 228 * 1024, "Hopper has no more");
};

// Begins to copy this warp's lines of a block.
template <int kDim>
__device__ void FetchLines(const TileView& view, uint32_t block, uint32_t to) {
  constexpr uint32_t kChunks = kDim / 16;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp_row = threadIdx.x / 32 * kWarpKeys;
  const uint32_t first = view.begin_key + block * kKeyBlock + warp_row;
  const uint32_t own = first + lane % kWarpKeys;
  auto line = reinterpret_cast<uint64_t>(view.keys);
  if (own < view.tile.end_key) {
    const TileView::Place place = view.PlaceOf(own);
    line = reinterpret_cast<uint64_t>(place.layer + place.line * view.a.kv.line_bytes());
    BringNear(place.layer + view.a.kv.scales_at() + place.line +
              (lane < kWarpKeys ? 0 : view.to_values));
  }
  const uint64_t to_value = view.ValueBytes();
  const uint32_t chunk = lane % kChunks;
  const bool real_chunk = chunk * 16 < view.a.kv.line_bytes();
#pragma unroll
  for (uint32_t i = 0; i < kWarpKeys * kChunks / 32; ++i) {
    const uint32_t row = (i * 32 + lane) / kChunks;
    const auto* const from =
        reinterpret_cast<const char*>(__shfl_sync(kAllLanes, line, static_cast<int>(row))) +
        chunk * 16;
    const bool real = real_chunk && first + row < view.tile.end_key;
    const uint32_t place = to + Fp8ChunkAt<kDim>(warp_row + row, chunk);
    CopyAsync(place, from, real);
    CopyAsync(place + Shape<kDim>::kTileBytes, from + to_value, real);
  }
}

// The scale of one of this warp's keys (lanes 0 to 15) or values.
__device__ inline uint32_t LoadScale(const TileView& view, uint32_t block) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t key =
      view.begin_key + block * kKeyBlock + threadIdx.x / 32 * kWarpKeys + lane % kWarpKeys;
  if (key >= view.tile.end_key) return 0;
  const TileView::Place place = view.PlaceOf(key);
  return reinterpret_cast<const uint8_t*>(
      place.layer + view.a.kv.scales_at())[place.line + (lane < kWarpKeys ? 0 : view.to_values)];
}

// Makes this warp's results visible to the other warps: four neighbouring numbers of a line at a
// time.
template <int kDim>
__device__ void ShowResults(const TileView& view, const Line (&of)[2],
                            const float (&out)[kDim / 8][4], char* shared) {
  const uint32_t lane = threadIdx.x % 32;
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t line = lane / 4 + i * 8;
    if (line >= view.lines) continue;
    const uint32_t row = threadIdx.x / 32 * kLines + line;
    if (lane % 4 == 0) {
      reinterpret_cast<float*>(shared + Shape<kDim>::kMostsAt)[row] = of[i].most - kMostWeight;
      reinterpret_cast<float*>(shared + Shape<kDim>::kSumsAt)[row] = of[i].sum;
    }
    auto* const to = reinterpret_cast<float4*>(shared + Shape<kDim>::kResultsAt) +
                     row * (Shape<kDim>::kRowNumbers / 4) + lane % 4;
#pragma unroll
    for (uint32_t j = 0; j < kDim / 16; ++j) {
      const uint32_t tile = j / 2 * 4;
      const uint32_t column = i * 2 + j % 2;
      // The cache stores four neighbouring numbers in the order 0, 2, 1, 3.
      to[j * 4] = make_float4(out[tile][column], out[tile + 2][column], out[tile + 1][column],
                              out[tile + 3][column]);
    }
  }
}

// Merges the warps' results and writes them.
template <int kDim>
__device__ void WriteResults(const TileView& view, const char* shared) {
  const auto* const mosts = reinterpret_cast<const float*>(shared + Shape<kDim>::kMostsAt);
  const auto* const sums = reinterpret_cast<const float*>(shared + Shape<kDim>::kSumsAt);
  const auto* const numbers = reinterpret_cast<const float4*>(shared + Shape<kDim>::kResultsAt);
  for (uint32_t i = threadIdx.x; i < view.lines * (kDim / 4); i += kThreads) {
    const uint32_t line = i / (kDim / 4);
    const uint32_t four = i % (kDim / 4);
    float most = -INFINITY;
#pragma unroll
    for (uint32_t w = 0; w < kWarps; ++w) most = fmaxf(most, mosts[w * kLines + line]);
    const float base = most == -INFINITY ? 0.0F : most;
    float sum = 0;
    float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
    for (uint32_t w = 0; w < kWarps; ++w) {
      const uint32_t row = w * kLines + line;
      const float factor = exp2f(mosts[row] - base);
      sum += factor * sums[row];
      const float4 of = numbers[row * (Shape<kDim>::kRowNumbers / 4) + four];
      total.x += factor * of.x;
      total.y += factor * of.y;
      total.z += factor * of.z;
      total.w += factor * of.w;
    }
    const uint32_t tile = four / 8 * 4;
    const uint32_t column =
        tile / kRun<kDim> * (8 * kRun<kDim>)+(four % 4 * 2 + four / 4 % 2) * kRun<kDim> +
        tile % kRun<kDim>;
    view.Write(line, column, most, sum, total.x * kValueUnit, total.y * kValueUnit);
    view.Write(line, column + 2, most, sum, total.z * kValueUnit, total.w * kValueUnit);
  }
}

template <int kDim>
__global__ void __launch_bounds__(kThreads, Sizes<kDim>::kBlocks) Fp8Kernel(const Attention a) {
  constexpr int kStages = Shape<kDim>::kStages;
  constexpr bool kAcross = Shape<kDim>::kAcross;
  constexpr uint32_t kTileBytes = Shape<kDim>::kTileBytes;
  PIE_DYNAMIC_SHARED(char, shared);

  LetNextStart();
  const StepHeader* const step = a.step;
  const AttentionTile* const tiles = ArrayOf<AttentionTile>(step, step->tiles);
  const uint32_t items = step->small_tiles * a.kv.kv_heads;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp_row = threadIdx.x / 32 * kWarpKeys;
  if (blockIdx.x >= items) {
    WaitForInputs();
    return;
  }
  TileView view(a, tiles, blockIdx.x);
  view.BringFirstKeys();
  WaitForInputs();

  // The tile whose blocks are copied next. It may be the tile after the one that is being computed.
  TileView next(a, tiles, blockIdx.x);
  TileView& ahead = kAcross ? next : view;
  uint32_t ahead_item = blockIdx.x;
  uint32_t ahead_block = 0;
  uint32_t ahead_stage = 0;
  // Begins the copies of the next block as one group. Does nothing if no block is left.
  const auto fetch = [&] {
    if (kAcross) {
      while (ahead_item < items && ahead_block == ahead.blocks) {
        ahead_item += gridDim.x;
        ahead_block = 0;
        if (ahead_item < items) new (&ahead) TileView(a, tiles, ahead_item);
      }
    }
    if (ahead_item < items && ahead_block < ahead.blocks) {
      const uint32_t to = Shape<kDim>::kBlocksAt + ahead_stage * 2 * kTileBytes;
      FetchLines<kDim>(ahead, ahead_block, SharedAddress(shared) + to);
      ++ahead_block;
      if (++ahead_stage == kStages) ahead_stage = 0;
    }
    CommitCopies();
  };
  uint32_t stage = 0;  // the stage of the next block to compute
  for (uint32_t item = blockIdx.x; item < items; item += gridDim.x) {
    if (item != blockIdx.x) new (&view) TileView(a, tiles, item);
    if (!kAcross || item == blockIdx.x) {
      ahead_block = 0;
#pragma unroll 1
      for (int i = 0; i < kStages - 1; ++i) fetch();
    }
    uint32_t scale = LoadScale(view, 0);
    auto* const lines = reinterpret_cast<Line*>(shared + Shape<kDim>::kLinesAt);
    if (threadIdx.x < kLines) lines[threadIdx.x] = view.LineOf(threadIdx.x);
    auto* const line_factors = reinterpret_cast<float*>(shared + Shape<kDim>::kFactorsAt);
    MakeQueries<kDim>(view, shared, line_factors);
    __syncthreads();
    Line of[2];        // state of the running softmax; the rest is unused
    float factors[2];  // factor from a line's products to its scores
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      factors[i] = line_factors[lane / 4 + i * 8] *
                   (a.softcap == 0 ? a.scale * kLog2E : a.scale / a.softcap);
    }
    float out[kDim / 8][4] = {};
    const uint32_t blocks = view.blocks;
    for (uint32_t block = 0; block < blocks; ++block) {
      AwaitCopies<kStages - 2>();
      __syncwarp();
      fetch();
      const Scales scales = Scales::Of(scale);
      scale = LoadScale(view, block + 1);
      const char* const keys = shared + Shape<kDim>::kBlocksAt + stage * 2 * kTileBytes;
      if (++stage == kStages) stage = 0;

      float scores[2][4] = {};
      Score<kDim>(shared, keys, warp_row, scores);
      float shrinks[2];
      WeighScaled(a, view.AllSee(block), view.begin_key + block * kKeyBlock + warp_row, scales,
                  lines, factors, of, scores, shrinks);
      Shrink(out, shrinks);
      AddValues<kDim>(keys + kTileBytes, warp_row, scores, out);
    }
    Finish(1, of);
    if (!kAcross) __syncthreads();  // all warps have read the blocks that the results overwrite
    ShowResults<kDim>(view, of, out, shared);
    __syncthreads();
    WriteResults<kDim>(view, shared);
    __syncthreads();  // all warps have read the results before the memory is used again
  }
}

template <int kDim>
void RunKind(const Attention& attention, int processors, Stream stream) {
  AllowShared(Fp8Kernel<kDim>, Shape<kDim>::kBytes);
  Launch(Fp8Kernel<kDim>, dim3(processors * Sizes<kDim>::kBlocks), dim3(kThreads),
         Shape<kDim>::kBytes, stream, attention);
}

}  // namespace

void RunFp8Tiles(const Attention& attention, int processors, Stream stream) {
  const uint32_t size = attention.kv.head_stride;
  if (size <= 64) {
    RunKind<64>(attention, processors, stream);
  } else if (size <= 128) {
    RunKind<128>(attention, processors, stream);
  } else {
    RunKind<256>(attention, processors, stream);
  }
}

}  // namespace pie::cuda
