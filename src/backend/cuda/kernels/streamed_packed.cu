// Streamed products with packed weights. Weights become halves in the registers of the warp groups
// that multiply, which are an operand of their instructions. A tile of packed.h has the numbers of
// a warp in the order of that operand, up to the order of the columns within each 32, so x gets the
// same order and becomes halves, too: some warps change it where it has been copied to.
//
// A tile of 256 rows has four warp groups: an instruction with an operand in registers takes long,
// and those of one group wait for one another.
#include "backend/cuda/kernels/bulk_copies.cuh"
#include "backend/cuda/kernels/group_products.cuh"
#include "backend/cuda/kernels/packed.cuh"
#include "backend/cuda/kernels/streamed_product.h"
#include "backend/cuda/kernels/streamed_tiles.cuh"

namespace pie::cuda {
namespace {

constexpr uint32_t kEight = 8 * 128;  // bytes of eight rows of x
constexpr uint32_t kMostStages = 12;
constexpr uint32_t kKindBytes = TileBytes(WeightKind::kFp8);
constexpr uint32_t kScaleBytes = kTileRows * ScaleBytes(WeightKind::kFp8);

// A stage of weights has the packed tiles of a span, then their scales; one of x has 64 columns of
// all rows, then the next 64.
template <uint32_t kRows, uint32_t kGroups>
struct Shape {
  static constexpr uint32_t kConsumerThreads = kGroups * 128;
  static constexpr uint32_t kWarps = kGroups * 4;
  // Warps that change x; two more ask for copies.
  static constexpr uint32_t kSorters = kGroups == 2 ? 6 : 2;
  static constexpr uint32_t kThreads = kConsumerThreads + (kSorters + 2) * 32;
  // A group's registers. Groups of four warps give and take them.
  static constexpr int kRegisters = kGroups == 2 ? 208 : kRows == 64 ? 112 : 104;
  static constexpr int kFewRegisters = kGroups == 2 ? 48 : kRows == 64 ? 32 : 40;
  static_assert(kThreads % 128 == 0);
  static constexpr uint32_t kTile = kGroups * 64;         // rows of W
  static constexpr uint32_t kPacked = kTile / kTileRows;  // tiles of packed.h in it
  static constexpr uint32_t kWeightBytes = kPacked * (kKindBytes + kScaleBytes);
  static constexpr uint32_t kInputBytes = kRows * kSpan * 2;
  static constexpr uint32_t kInputStages = kRows > 64 ? 3 : 4;
  static constexpr uint32_t kMost = (kRingBytes - kInputStages * kInputBytes) / kWeightBytes;
  static constexpr uint32_t kStages = kMost < kMostStages ? kMost : kMostStages;
  static constexpr uint32_t kInFlight = kGroups == 2 ? 3 : 2;
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
template <uint32_t kRows, uint32_t kSorters>
__device__ void Sort(char* stage, uint32_t thread) {
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

// Half of the columns of a warp's 16 rows of a span, as operands of four instructions.
struct Fragments {
  uint32_t a[4][4];

  __device__ void Load(const char* tile, uint32_t half) {
    const auto* const lines = reinterpret_cast<const uint4*>(tile) + threadIdx.x % 32;
#pragma unroll
    for (uint32_t row = 0; row < 2; ++row) {
      const uint4 bytes = lines[(half * 2 + row) * 32];
      const uint32_t words[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        const uint2 pairs = HalvesOfE4m3(words[i]);
        a[i][row] = pairs.x;
        a[i][row + 2] = pairs.y;
      }
    }
  }
};

template <uint32_t kRows, uint32_t kGroups>
__global__ void __launch_bounds__(Shape<kRows, kGroups>::kThreads, 1)
    StreamedPackedKernel(const __grid_constant__ Parameters parameters) {
#if PIE_HAS_WGMMA
  using S = Shape<kRows, kGroups>;
  constexpr uint32_t kTiles = kRows / 8;
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
      InitBarrier(&empty[i], S::kWarps);
    }
    for (uint32_t i = 0; i < S::kInputStages; ++i) {
      InitBarrier(&inputs_come[i], 1);
      InitBarrier(&inputs_full[i], S::kSorters);
      InitBarrier(&inputs_empty[i], S::kWarps);
    }
  }
  __syncthreads();
  const uint32_t warp = threadIdx.x / 32;
  if (warp >= S::kWarps) GiveRegisters<S::kFewRegisters>();
  if (warp == S::kWarps) {
    CopyWeights<S>(a, full, empty, [&](uint32_t stage, const Walk& walk) {
      char* const to = weights + stage * S::kWeightBytes;
      CopyBox(to, parameters.w, walk.step * (kKindBytes / 8), walk.tile * S::kPacked, &full[stage]);
      CopyBox(to + S::kPacked * kKindBytes, parameters.scales, walk.step * (kScaleBytes / 8),
              walk.tile * S::kPacked, &full[stage]);
    });
    return;
  }
  if (warp > S::kWarps) {
    const bool sorts = warp > S::kWarps + 1;
    WaitForInputs();
    if (!sorts && threadIdx.x % 32 != 0) return;
    Ring<S::kInputStages> ring;
    Walk walk(a);
    const uint32_t count = StepsOf(a);
    for (uint32_t i = 0; i < count; ++i) {
      char* const stage = inputs + ring.stage * S::kInputBytes;
      if (sorts) {
        AwaitPhase(&inputs_come[ring.stage], ring.parity);
        Sort<kRows, S::kSorters>(stage, threadIdx.x - (S::kWarps + 2) * 32);
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

  TakeRegisters<S::kRegisters>();
  WaitForInputs();
  const bool never = a.product.rows == 0;
  const bool first_lane = threadIdx.x % 32 == 0;
  const uint32_t lane = threadIdx.x % 32;
  Ring<S::kStages> ring;
  Ring<S::kInputStages> inputs_ring;
  uint32_t left = StepsOf(a);  // stages to be loaded
  Fragments first;             // of the next stage
  const char* tile = nullptr;  // of that stage
  const auto load_first = [&] {
    if (left == 0) return;
    --left;
    AwaitPhase(&full[ring.stage], ring.parity);
    tile = weights + ring.stage * S::kWeightBytes + warp * kKindBytes;
    first.Load(tile, 0);
  };

  load_first();
  Walk walk(a);
  do {
    float acc[1][kTiles][4] = {};
    for (uint32_t step = walk.step; step < walk.past; ++step) {
      AwaitPhase(&inputs_full[inputs_ring.stage], inputs_ring.parity);
      const uint32_t x = SharedAddress(inputs) + inputs_ring.stage * S::kInputBytes;
      float part[kTiles][4] = {};
      const auto multiply = [&](Fragments& of, uint32_t half) {
        Hold(of.a);
        BeginGroupProducts();
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
          GroupScoresOfHalves(part, of.a[i][0], of.a[i][1], of.a[i][2], of.a[i][3],
                              OperandAt(x + half * (kRows * 128) + i * 32, kEight, 0),
                              half > 0 || i > 0);
        }
        CommitGroupProducts();
      };
      // The numbers of one half are made while the other half is multiplied.
      Settle(part);
      multiply(first, 0);
      Fragments second;
      second.Load(tile, 1);
      const auto* const scales = reinterpret_cast<const float*>(
          weights + ring.stage * S::kWeightBytes + S::kPacked * kKindBytes + warp * kScaleBytes);
      const float top = scales[lane / 4] / kHalfScale;
      const float bottom = scales[lane / 4 + 8] / kHalfScale;
      multiply(second, 1);
      __syncwarp();
      if (first_lane) Arrive(&empty[ring.stage]);
      ring.Advance();
      AwaitGroupProducts<1>();
      KeepUntilHere(first.a, never);
      load_first();
      AwaitGroupProducts<0>();
      Settle(part);
      KeepUntilHere(second.a, never);
#pragma unroll
      for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) acc[0][t][i] += (i < 2 ? top : bottom) * part[t][i];
      }
      if (first_lane) Arrive(&inputs_empty[inputs_ring.stage]);
      inputs_ring.Advance();
    }
    if (walk.past < walk.steps) {
      Leave<S::kConsumerThreads>(a, acc);
      continue;
    }
    if (walk.step > 0) Collect<S::kConsumerThreads>(a, walk.tile, acc);
    Write(a.product, walk.tile * S::kTile + warp * 16, acc[0]);
  } while (walk.Next());
#endif
}

}  // namespace

bool RunStreamedPacked(const Product& p, uint32_t tile, void* sums, uint32_t* flags, MapCache& maps,
                       Stream stream) {
  const auto run = [&]<uint32_t kRows, uint32_t kGroups>() {
    using S = Shape<kRows, kGroups>;
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
    const auto kernel = StreamedPackedKernel<kRows, kGroups>;
    AllowShared(kernel, S::kShared);
    Launch(kernel, dim3(BlocksOf(a.share)), dim3(S::kThreads), S::kShared, stream, a);
    return true;
  };
  const bool large = tile == 256;
  if (p.rows <= 16) return large ? run.operator()<16, 4>() : run.operator()<16, 2>();
  if (p.rows <= 32) return large ? run.operator()<32, 4>() : run.operator()<32, 2>();
  if (p.rows <= 64) return large ? run.operator()<64, 4>() : run.operator()<64, 2>();
  return run.operator()<128, 2>();
}

}  // namespace pie::cuda
