// Streamed products with packed weights. Weights become halves in the registers of the warp groups
// that multiply, which are an operand of their instructions. A tile of packed.h has the numbers of a
// warp in the order of that operand, up to the order of the columns within each 32, so x gets the
// same order and becomes halves, too: six warps change it where it has been copied to.
#include "backend/cuda/kernels/bulk_copies.cuh"
#include "backend/cuda/kernels/group_products.cuh"
#include "backend/cuda/kernels/packed.cuh"
#include "backend/cuda/kernels/streamed_product.h"
#include "backend/cuda/kernels/streamed_tiles.cuh"

namespace pie::cuda {
namespace {

constexpr uint32_t kSorters = 6;  // warps that change x; two more ask for copies
constexpr uint32_t kThreads = kConsumers + (kSorters + 2) * 32;
// Registers are given and taken by groups of four warps.
static_assert(kThreads % 128 == 0);
constexpr uint32_t kEight = 8 * 128;  // bytes of eight rows of x
constexpr uint32_t kMostStages = 12;
constexpr uint32_t kKindBytes = TileBytes(WeightKind::kFp8);
constexpr uint32_t kScaleBytes = kTileRows * ScaleBytes(WeightKind::kFp8);

// A stage of weights has the packed tiles of a span, then their scales; one of x has 64 columns of
// all rows, then the next 64.
template <uint32_t kRows, uint32_t kBlocks>
struct Shape {
  static constexpr uint32_t kTile = kStreamGroups * kBlocks * 64;  // rows of W
  static constexpr uint32_t kPacked = kTile / kTileRows;           // tiles of packed.h in it
  static constexpr uint32_t kWeightBytes = kPacked * (kKindBytes + kScaleBytes);
  static constexpr uint32_t kInputBytes = kRows * kSpan * 2;
  static constexpr uint32_t kInputStages = kRows > 64 ? 3 : 4;
  static constexpr uint32_t kMost = (kRingBytes - kInputStages * kInputBytes) / kWeightBytes;
  static constexpr uint32_t kStages = kMost < kMostStages ? kMost : kMostStages;
  static constexpr uint32_t kInFlight = kBlocks == 1 ? 3 : 2;
  static constexpr uint32_t kBarriersAt = kInputStages * kInputBytes + kStages * kWeightBytes;
  static constexpr size_t kShared =
      kBarriersAt + (kInputStages * 3 + kStages * 2) * sizeof(uint64_t);
  static_assert(kTile * kRows * sizeof(float) <= kSumBytes && kStages >= 3);
};

struct Parameters {
  MatrixMap w;       // words of 8 bytes, a row for each row of tiles
  MatrixMap scales;  // the same
  MatrixMap x;
  StreamedShare share;
};

// Makes a stage of x scaled halves in the order of packed weights, in place: within 32 columns, the
// 16 bytes of an instruction's operand have a pair of numbers of each of four threads' eight.
template <uint32_t kRows>
__device__ void Sort(char* stage, uint32_t thread) {
#pragma unroll
  for (uint32_t at = thread; at < kRows * 4; at += kSorters * 32) {
    const uint32_t row = at % kRows;
    const uint32_t columns = at / kRows;  // times 32
    char* const half = stage + columns / 2 * (kRows * 128) + row * 128;
    const auto place = [&](uint32_t i) {
      return reinterpret_cast<uint4*>(half + (((columns % 2 * 4 + i) ^ (row % 8)) << 4));
    };
    uint2 low[4];
    uint2 high[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint4 eight = *place(i);
      low[i] = OrderedHalves(eight.x, eight.y);
      high[i] = OrderedHalves(eight.z, eight.w);
    }
    *place(0) = make_uint4(low[0].x, low[1].x, low[2].x, low[3].x);
    *place(1) = make_uint4(low[0].y, low[1].y, low[2].y, low[3].y);
    *place(2) = make_uint4(high[0].x, high[1].x, high[2].x, high[3].x);
    *place(3) = make_uint4(high[0].y, high[1].y, high[2].y, high[3].y);
  }
}

// A warp's 16 rows of a span as operands of 8 instructions, and the rows' scales.
struct Fragments {
  uint32_t a[8][4];
  float top, bottom;

  __device__ void Load(const char* tile, const char* scales) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    RowSpan<WeightKind::kFp8> rows[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      rows[half].Load<true>(tile, scales, lane, half);
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        uint32_t pairs[4];
        rows[half].UnpackHalves(g, pairs);
        a[2 * g][half] = pairs[0];
        a[2 * g][half + 2] = pairs[1];
        a[2 * g + 1][half] = pairs[2];
        a[2 * g + 1][half + 2] = pairs[3];
      }
    }
    top = rows[0].Scale(0) / kHalfScale;
    bottom = rows[1].Scale(0) / kHalfScale;
  }
};

template <uint32_t kRows, uint32_t kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    StreamedPackedKernel(const __grid_constant__ Parameters parameters) {
#if PIE_HAS_WGMMA
  using S = Shape<kRows, kBlocks>;
  constexpr uint32_t kTiles = kRows / 8;
  // Fragments are made while the instructions before run, if there are enough registers.
  constexpr bool kAhead = kRows <= 64 && kBlocks == 1;
  const StreamedShare& a = parameters.share;
  PIE_DYNAMIC_SHARED(char, shared);
  char* const inputs = shared;
  char* const weights = shared + S::kInputStages * S::kInputBytes;
  auto* const full = reinterpret_cast<uint64_t*>(shared + S::kBarriersAt);
  uint64_t* const empty = full + S::kStages;
  uint64_t* const inputs_come = empty + S::kStages;
  uint64_t* const inputs_full = inputs_come + S::kInputStages;
  uint64_t* const inputs_empty = inputs_full + S::kInputStages;
  LetNextStart();
  if (threadIdx.x == 0) {
    for (uint32_t i = 0; i < S::kStages; ++i) {
      InitBarrier(&full[i], 1);
      InitBarrier(&empty[i], kConsumerWarps);
    }
    for (uint32_t i = 0; i < S::kInputStages; ++i) {
      InitBarrier(&inputs_come[i], 1);
      InitBarrier(&inputs_full[i], kSorters);
      InitBarrier(&inputs_empty[i], kConsumerWarps);
    }
  }
  __syncthreads();
  const uint32_t warp = threadIdx.x / 32;
  if (warp >= kConsumerWarps) GiveRegisters<48>();
  if (warp == kConsumerWarps) {
    CopyWeights<S>(a, full, empty, [&](uint32_t stage, const Walk& walk) {
      char* const to = weights + stage * S::kWeightBytes;
      CopyBox(to, parameters.w, walk.step * (kKindBytes / 8), walk.tile * S::kPacked, &full[stage]);
      CopyBox(to + S::kPacked * kKindBytes, parameters.scales, walk.step * (kScaleBytes / 8),
              walk.tile * S::kPacked, &full[stage]);
    });
    return;
  }
  if (warp > kConsumerWarps) {
    const bool sorts = warp > kConsumerWarps + 1;
    WaitForInputs();
    if (!sorts && threadIdx.x % 32 != 0) return;
    Ring<S::kInputStages> ring;
    Walk walk(a);
    const uint32_t count = StepsOf(a);
    for (uint32_t i = 0; i < count; ++i) {
      char* const stage = inputs + ring.stage * S::kInputBytes;
      if (sorts) {
        AwaitPhase(&inputs_come[ring.stage], ring.parity);
        Sort<kRows>(stage, threadIdx.x - (kConsumerWarps + 2) * 32);
        ShowToGroupProducts();
        __syncwarp();
        if (threadIdx.x % 32 == 0) Arrive(&inputs_full[ring.stage]);
      } else {
        if (i >= S::kInputStages) AwaitPhase(&inputs_empty[ring.stage], ring.parity ^ 1);
        ArriveExpecting(&inputs_come[ring.stage], S::kInputBytes);
        for (uint32_t half = 0; half < 2; ++half) {
          CopyBox(stage + half * (kRows * 128), parameters.x, walk.step * kSpan + half * 64, 0,
                  &inputs_come[ring.stage]);
        }
        walk.Advance();
      }
      ring.Advance();
    }
    return;
  }

  TakeRegisters<208>();
  WaitForInputs();
  const bool never = a.product.rows == 0;
  const bool first_lane = threadIdx.x % 32 == 0;
  const uint32_t group = threadIdx.x / 128;
  Ring<S::kStages> ring;
  Ring<S::kInputStages> inputs_ring;
  uint32_t left = StepsOf(a);  // to be loaded
  const auto load = [&](uint32_t b, Fragments& to) {
    if (b == 0) {
      if (left == 0) return;
      --left;
      AwaitPhase(&full[ring.stage], ring.parity);
    }
    const char* const stage = weights + ring.stage * S::kWeightBytes;
    const uint32_t tile = (group * kBlocks + b) * 4 + warp % 4;
    to.Load(stage + tile * kKindBytes, stage + S::kPacked * kKindBytes + tile * kScaleBytes);
    if (b + 1 < kBlocks) return;
    __syncwarp();
    if (first_lane) Arrive(&empty[ring.stage]);
    ring.Advance();
  };

  Fragments now;
  load(0, now);
  Walk walk(a);
  do {
    float acc[kBlocks][kTiles][4] = {};
    for (uint32_t step = walk.step; step < walk.past; ++step) {
      AwaitPhase(&inputs_full[inputs_ring.stage], inputs_ring.parity);
      const uint32_t x = SharedAddress(inputs) + inputs_ring.stage * S::kInputBytes;
#pragma unroll
      for (uint32_t b = 0; b < kBlocks; ++b) {
        float part[kTiles][4] = {};
        Settle(part);
        Hold(now.a);
        BeginGroupProducts();
#pragma unroll
        for (uint32_t i = 0; i < 8; ++i) {
          GroupScoresOfHalves(part, now.a[i][0], now.a[i][1], now.a[i][2], now.a[i][3],
                              OperandAt(x + i / 4 * (kRows * 128) + i % 4 * 32, kEight, 0), i > 0);
        }
        CommitGroupProducts();
        Fragments next;
        if (kAhead) load((b + 1) % kBlocks, next);
        AwaitGroupProducts<0>();
        Settle(part);
        KeepUntilHere(now.a, never);
#pragma unroll
        for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
          for (uint32_t i = 0; i < 4; ++i) {
            acc[b][t][i] += (i < 2 ? now.top : now.bottom) * part[t][i];
          }
        }
        if (kAhead) {
          now = next;
        } else {
          load((b + 1) % kBlocks, now);
        }
      }
      if (first_lane) Arrive(&inputs_empty[inputs_ring.stage]);
      inputs_ring.Advance();
    }
    if (walk.past < walk.steps) {
      Leave(a, acc);
      continue;
    }
    if (walk.step > 0) Collect(a, walk.tile, acc);
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const uint32_t first = walk.tile * S::kTile + (group * kBlocks + b) * 64 + warp % 4 * 16;
      Write(a.product, first, acc[b]);
    }
  } while (walk.Next());
#endif
}

}  // namespace

bool RunStreamedPacked(const Product& p, uint32_t tile, void* sums, uint32_t* flags, MapCache& maps,
                       Stream stream) {
  const auto run = [&]<uint32_t kRows, uint32_t kBlocks>() {
    using S = Shape<kRows, kBlocks>;
    const uint64_t rows = (p.n + kTileRows - 1) / kTileRows;
    const uint64_t spans = SpansOf(p.k);
    const MatrixMap* const w = maps.Of(p.w, p.n, p.k, S::kPacked, [&](MatrixMap* map) {
      return DescribeWords(p.w, rows, spans * (kKindBytes / 8), S::kPacked, kKindBytes / 8, map);
    });
    const MatrixMap* const scales = maps.Of(p.scales, p.n, p.k, S::kPacked, [&](MatrixMap* map) {
      return DescribeWords(p.scales, rows, spans * (kScaleBytes / 8), S::kPacked, kScaleBytes / 8,
                           map);
    });
    const MatrixMap* const x = maps.Of(p.x, p.rows, p.k, kRows, [&](MatrixMap* map) {
      return DescribeMatrix(p.x, p.rows, p.k, kRows, map);
    });
    if (w == nullptr || scales == nullptr || x == nullptr) return false;
    const Parameters a{
        .w = *w, .scales = *scales, .x = *x, .share = ShareOf(p, S::kTile, kSpan, sums, flags)};
    const auto kernel = StreamedPackedKernel<kRows, kBlocks>;
    AllowShared(kernel, S::kShared);
    Launch(kernel, dim3(BlocksOf(a.share)), dim3(kThreads), S::kShared, stream, a);
    return true;
  };
  const bool large = tile == 256;
  if (p.rows <= 16) return large ? run.operator()<16, 2>() : run.operator()<16, 1>();
  if (p.rows <= 32) return large ? run.operator()<32, 2>() : run.operator()<32, 1>();
  if (p.rows <= 64) return large ? run.operator()<64, 2>() : run.operator()<64, 1>();
  return run.operator()<128, 1>();
}

}  // namespace pie::cuda
