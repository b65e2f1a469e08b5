// Large tiles of attention by Hopper's products of warp groups. Each of two warp groups has 64 of
// the tile's lines; both read the same keys and values. While a group weighs the scores of a block
// of keys, the product of the block before with its values runs.
#include "backend/cuda/kernels/attention_tile.cuh"
#include "backend/cuda/kernels/group_products.cuh"

namespace pie::cuda {
namespace {

constexpr int kThreads = 256;
constexpr uint32_t kLines = 128;
constexpr uint32_t kStages = 4;
constexpr uint32_t kEight = 8 * 128;  // bytes of eight rows

// Address of a 16-byte chunk of a row, as OperandAt wants it: 64 numbers of all rows, then the next
// 64 of all rows.
template <uint32_t kRows>
__device__ uint32_t PlaceOf(uint32_t tile, uint32_t row, uint32_t chunk) {
  return tile + chunk / 8 * (kRows * 128) + row * 128 + ((chunk % 8 ^ (row & 7)) << 4);
}

// kFp8: of keys and values. Blocks of them are copied in stages as they are, and made bfloat16 in
// two tiles: the values of a block are read while the keys of the next are.
template <int kDim, bool kFp8>
__global__ void __launch_bounds__(kThreads, 1) HopperAttentionKernel(const Attention a) {
#if PIE_HAS_WGMMA
  constexpr uint32_t kChunks = kDim / 8;
  constexpr uint32_t kTileBytes = kKeyBlock * kDim * 2;
  PIE_DYNAMIC_SHARED(char, shared);
  const uint32_t q_tile = SharedAddress(shared);
  const uint32_t kv_tiles = q_tile + kLines * kDim * 2;
  constexpr uint32_t kTiles = kFp8 ? 2 : kStages;
  const uint32_t raw_tiles = kv_tiles + kTiles * 2 * kTileBytes;  // in fp8
  using Raw = Fp8Chunks<kDim, kThreads>;
  LetNextStart();
  const StepHeader* const step = a.step;
  const AttentionTile* const tile_list =
      ArrayOf<AttentionTile>(step, step->tiles) + step->small_tiles;
  const uint32_t items = step->large_tiles * a.kv.kv_heads;
  const uint32_t real_chunks = a.kv.head_stride / 8;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t group = threadIdx.x / 128;
  const float to_log2 = ToLog2(a);
  if (blockIdx.x < items) TileView(a, tile_list, blockIdx.x).BringFirstKeys();
  WaitForInputs();

  for (uint32_t item = blockIdx.x; item < items; item += gridDim.x) {
    const TileView view(a, tile_list, item);
    const uint32_t blocks = view.blocks;
    const auto fetch = [&](uint32_t block) {
      if (kFp8 && block < blocks) {
        Raw::Fetch(view, block, raw_tiles + block % kStages * Raw::kBytes);
      } else if (block < blocks) {
        const uint32_t to = kv_tiles + block % kStages * (2 * kTileBytes);
#pragma unroll
        for (uint32_t i = 0; i < kKeyBlock * kChunks / kThreads; ++i) {
          const uint32_t at = threadIdx.x + i * kThreads;
          const uint32_t row = at / kChunks;
          const uint32_t chunk = at % kChunks;
          const uint32_t key = view.begin_key + block * kKeyBlock + row;
          const bool real = key < view.tile.end_key && chunk < real_chunks;
          const char* const from = real ? view.KeyAt(key, chunk) : view.keys;
          const uint32_t place = PlaceOf<kKeyBlock>(to, row, chunk);
          CopyAsync(place, from, real);
          CopyAsync(place + kTileBytes, real ? from + view.ValueBytes() : from, real);
        }
      }
      CommitCopies();
    };
    for (uint32_t i = threadIdx.x; i < kLines * kChunks; i += kThreads) {
      const uint32_t line = i / kChunks;
      const uint32_t chunk = i % kChunks;
      const bool real = line < view.lines && chunk < real_chunks;
      const void* const from = real ? view.QueryAt(line, chunk) : a.q;
      CopyAsync(PlaceOf<kLines>(q_tile, line, chunk), from, real);
    }
    fetch(0);  // with the queries
    fetch(1);
    Raw raw;
    if constexpr (kFp8) raw.LoadScales(view, 0);

    const uint32_t first_line = threadIdx.x / 32 * 16 + lane / 4;
    Line of[2];
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) of[i] = view.LineOf(first_line + i * 8);
    float out[kDim / 8][4] = {};
    float scores[kKeyBlock / 8][4];
    uint32_t weights[kKeyBlock / 16][4];  // of the block before, in bfloat16

    const auto add_values = [&](uint32_t block) {
      const uint32_t values = kv_tiles + block % kTiles * (2 * kTileBytes) + kTileBytes;
#pragma unroll
      for (uint32_t k = 0; k < kKeyBlock / 16; ++k) {
        GroupOutputs(out, weights[k][0], weights[k][1], weights[k][2], weights[k][3],
                     OperandAt(values + k * 2 * kEight, kEight, kKeyBlock * 128));
      }
      CommitGroupProducts();
    };

    for (uint32_t block = 0; block < blocks; ++block) {
      AwaitCopies<1>();
      if constexpr (kFp8) {
        __syncthreads();  // the products with the block before the last have ended in both groups
        raw.Convert(shared + (raw_tiles - q_tile) + block % kStages * Raw::kBytes,
                    [&](uint32_t key, uint32_t chunk, uint32_t value) {
                      const uint32_t tile =
                          kv_tiles + block % kTiles * (2 * kTileBytes) + value * kTileBytes;
                      return shared + (PlaceOf<kKeyBlock>(tile, key, chunk) - q_tile);
                    });
        raw.LoadScales(view, block + 1);
      }
      ShowToGroupProducts();
      __syncthreads();  // the block has come, and the stage that is filled next is free
      fetch(block + 2);
      const uint32_t keys = kv_tiles + block % kTiles * (2 * kTileBytes);
      BeginGroupProducts();
#pragma unroll
      for (uint32_t d = 0; d < kDim / 16; ++d) {
        const uint32_t along = d % 4 * 32;
        GroupScores(
            scores,
            OperandAt(q_tile + d / 4 * (kLines * 128) + group * 8 * kEight + along, kEight, 0),
            OperandAt(keys + d / 4 * (kKeyBlock * 128) + along, kEight, 0), d > 0);
      }
      CommitGroupProducts();
      if (block > 0) {
        add_values(block - 1);
        AwaitGroupProducts<1>();
      } else {
        AwaitGroupProducts<0>();
      }
      Settle(scores);
      float shrinks[2];
      Weigh(a, view.AllSee(block), view.begin_key + block * kKeyBlock, to_log2, of, scores,
            shrinks);
      AwaitGroupProducts<0>();
      Settle(out);
      Shrink(out, shrinks);
#pragma unroll
      for (uint32_t k = 0; k < kKeyBlock / 16; ++k) {
        weights[k][0] = PackBf16(scores[2 * k][0], scores[2 * k][1]);
        weights[k][1] = PackBf16(scores[2 * k][2], scores[2 * k][3]);
        weights[k][2] = PackBf16(scores[2 * k + 1][0], scores[2 * k + 1][1]);
        weights[k][3] = PackBf16(scores[2 * k + 1][2], scores[2 * k + 1][3]);
      }
    }
    if (blocks > 0) {
      BeginGroupProducts();
      add_values(blocks - 1);
      AwaitGroupProducts<0>();
      Settle(out);
    }
    Finish(to_log2, of);
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t line = first_line + i * 8;
      if (line >= view.lines) continue;
#pragma unroll
      for (uint32_t d = 0; d < kDim / 8; ++d) {
        view.Write(line, d * 8 + lane % 4 * 2, of[i].most, of[i].sum, out[d][2 * i],
                   out[d][2 * i + 1]);
      }
    }
    AwaitCopies<0>();
    __syncthreads();  // before the next tile's copies
  }
#endif
}

template <int kDim, bool kFp8>
void Run(const Attention& attention, int blocks, Stream stream) {
  const auto kernel = HopperAttentionKernel<kDim, kFp8>;
  // Two tiles in bfloat16 and four stages in fp8 are as large as four stages in bfloat16.
  constexpr size_t kShared = (kLines + kStages * 2 * kKeyBlock) * kDim * 2;
  AllowShared(kernel, kShared);
  Launch(kernel, dim3(blocks), dim3(kThreads), kShared, stream, attention);
}

}  // namespace

void RunHopperTiles(const Attention& attention, int processors, Stream stream) {
  const bool narrow = attention.kv.head_stride <= 64;
  if (attention.kv.fp8) {
    narrow ? Run<64, true>(attention, processors * 2, stream)
           : Run<128, true>(attention, processors, stream);
  } else {
    narrow ? Run<64, false>(attention, processors * 2, stream)
           : Run<128, false>(attention, processors, stream);
  }
}

}  // namespace pie::cuda
