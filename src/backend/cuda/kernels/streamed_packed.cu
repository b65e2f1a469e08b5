// Streamed products with packed weights. The warp groups that multiply convert weights to f16 in
// registers, where their instructions take them as an operand. A tile of packed.h has a warp's
// numbers in the order of that operand, except for the order of the columns within each 32. So a
// small kernel that runs before stores x as f16 in the same order.
#include "backend/cuda/kernels/bulk_copies.cuh"
#include "backend/cuda/kernels/group_products.cuh"
#include "backend/cuda/kernels/packed.cuh"
#include "backend/cuda/kernels/streamed_product.h"
#include "backend/cuda/kernels/streamed_tiles.cuh"
#include "base/round_up.h"

namespace pie::cuda {
namespace {

// One of the remaining warps requests weights, and one requests inputs. Groups of four warps hand
// registers to one another.
constexpr uint32_t kThreads = kConsumers + 128;
constexpr uint32_t kEight = 8 * 128;  // bytes of eight rows of x
constexpr uint32_t kMostStages = 12;
constexpr uint32_t kKindBytes = TileBytes(WeightKind::kFp8);
constexpr uint32_t kScaleBytes = kTileRows * ScaleBytes(WeightKind::kFp8);

// A stage of weights has the packed tiles of a span, then their scales; one of x has 64 columns of
// all rows, then the next 64.
template <uint32_t kRows>
struct Shape {
  static constexpr uint32_t kTile = kStreamGroups * 64;   // rows of W
  static constexpr uint32_t kPacked = kTile / kTileRows;  // tiles of packed.h in it
  static constexpr uint32_t kWeightBytes = kPacked * (kKindBytes + kScaleBytes);
  static constexpr uint32_t kInputBytes = kRows * kSpan * 2;
  static constexpr uint32_t kInputStages = kRows > 64 ? 3 : 4;
  static constexpr uint32_t kMost = (kRingBytes - kInputStages * kInputBytes) / kWeightBytes;
  static constexpr uint32_t kStages = kMost < kMostStages ? kMost : kMostStages;
  static constexpr uint32_t kInFlight = 3;
  static constexpr uint32_t kBarriersAt = kInputStages * kInputBytes + kStages * kWeightBytes;
  static constexpr size_t kShared =
      kBarriersAt + (kInputStages * 2 + kStages * 2) * sizeof(uint64_t);
  static_assert(kTile * kRows * sizeof(float) <= kSumBytes && kStages >= 3);
};

struct Parameters {
  MatrixMap w;       // words of 8 bytes, a row for each row of tiles
  MatrixMap scales;  // the same
  MatrixMap x;
  StreamedShare share;
};

// Numbers of x that are multiplied with e4m3 weights are f16, because one instruction converts a
// pair of e4m3 to f16, and four convert it to bfloat16. The largest f16 is 65,504, so x is scaled:
// numbers of x below 2^20 keep 11 bits down to 2^-10, and have an error of 2^-21 below that.
constexpr float kHalfScale = 1.0F / 16;
__device__ uint32_t ScaledHalves(float low, float high) {
  const auto scaled = [](float x) { return fminf(fmaxf(x * kHalfScale, -65504.0F), 65504.0F); };
  return PackHalves(scaled(low), scaled(high));
}

// Converts two pairs of bfloat16 to scaled f16, in the order of HalvesOfE4m3 for packed weights:
// numbers 0 and 2, 1 and 3.
__device__ uint2 OrderedHalves(uint32_t first, uint32_t second) {
  const auto low = [](uint32_t pair) { return __uint_as_float(pair << 16); };
  const auto high = [](uint32_t pair) { return __uint_as_float(pair & 0xFFFF0000U); };
  return make_uint2(ScaledHalves(low(first), low(second)), ScaledHalves(high(first), high(second)));
}

constexpr uint32_t kOrderThreads = 256;

// Stores x as scaled f16 in the order of packed weights: for each 32 columns, the 16 bytes of an
// instruction's operand hold a pair of numbers from each of four threads' eight. A thread handles
// 32 columns of a row. `columns` is a multiple of 32; x is zero from column k on.
__global__ void __launch_bounds__(kOrderThreads)
    OrderKernel(const bf16* x, uint32_t k, uint32_t rows, uint4* out, uint32_t columns) {
  LetNextStart();
  WaitForInputs();
  const uint32_t i = blockIdx.x * kOrderThreads + threadIdx.x;
  const uint32_t groups = columns / 32;
  const uint32_t row = i / groups;
  const uint32_t column = i % groups * 32;
  if (row >= rows) return;
  uint2 low[4];
  uint2 high[4];
#pragma unroll
  for (uint32_t c = 0; c < 4; ++c) {
    uint4 eight = make_uint4(0, 0, 0, 0);  // k is a multiple of 8
    if (column + c * 8 < k) {
      eight = *reinterpret_cast<const uint4*>(x + size_t{row} * k + column + c * 8);
    }
    low[c] = OrderedHalves(eight.x, eight.y);
    high[c] = OrderedHalves(eight.z, eight.w);
  }
  uint4* const to = out + (size_t{row} * columns + column) / 8;
  to[0] = make_uint4(low[0].x, low[1].x, low[2].x, low[3].x);
  to[1] = make_uint4(low[0].y, low[1].y, low[2].y, low[3].y);
  to[2] = make_uint4(high[0].x, high[1].x, high[2].x, high[3].x);
  to[3] = make_uint4(high[0].y, high[1].y, high[2].y, high[3].y);
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

template <uint32_t kRows>
__global__ void __launch_bounds__(kThreads, 1)
    StreamedPackedKernel(const __grid_constant__ Parameters parameters) {
#if PIE_HAS_WGMMA
  using S = Shape<kRows>;
  constexpr uint32_t kTiles = kRows / 8;
  const StreamedShare& a = parameters.share;
  PIE_DYNAMIC_SHARED(char, shared);
  char* const inputs = shared;
  char* const weights = shared + S::kInputStages * S::kInputBytes;
  auto* const full = reinterpret_cast<uint64_t*>(shared + S::kBarriersAt);
  uint64_t* const empty = full + S::kStages;
  uint64_t* const inputs_full = empty + S::kStages;
  uint64_t* const inputs_empty = inputs_full + S::kInputStages;
  LetNextStart();
  if (threadIdx.x == 0) {
    for (uint32_t i = 0; i < S::kStages; ++i) {
      InitBarrier(&full[i], 1);
      InitBarrier(&empty[i], kConsumerWarps);
    }
    for (uint32_t i = 0; i < S::kInputStages; ++i) {
      InitBarrier(&inputs_full[i], 1);
      InitBarrier(&inputs_empty[i], kConsumerWarps);
    }
  }
  __syncthreads();
  const uint32_t warp = threadIdx.x / 32;
  if (warp >= kConsumerWarps) GiveRegisters<56>();
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
    WaitForInputs();
    if (warp > kConsumerWarps + 1 || threadIdx.x % 32 != 0) return;
    Ring<S::kInputStages> ring;
    Walk walk(a);
    const uint32_t count = StepsOf(a);
    for (uint32_t i = 0; i < count; ++i) {
      char* const stage = inputs + ring.stage * S::kInputBytes;
      if (i >= S::kInputStages) AwaitPhase(&inputs_empty[ring.stage], ring.parity ^ 1);
      ArriveExpecting(&inputs_full[ring.stage], S::kInputBytes);
      for (uint32_t half = 0; half < 2; ++half) {
        CopyBox(stage + half * (kRows * 128), parameters.x, walk.step * kSpan + half * 64, 0,
                &inputs_full[ring.stage]);
      }
      walk.Advance();
      ring.Advance();
    }
    return;
  }

  TakeRegisters<224>();
  WaitForInputs();
  const bool never = a.product.rows == 0;
  const bool first_lane = threadIdx.x % 32 == 0;
  const uint32_t lane = threadIdx.x % 32;
  Ring<S::kStages> ring;
  Ring<S::kInputStages> inputs_ring;
  uint32_t left = StepsOf(a);  // stages that are still to be loaded
  Fragments first;             // position of the next stage
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
      // One half is converted while the other half is multiplied.
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
      Leave(a, acc);
      continue;
    }
    if (walk.step > 0) Collect(a, walk.tile, acc);
    Write(a.product, walk.tile * S::kTile + warp * 16, acc[0]);
  } while (walk.Next());
#endif
}

}  // namespace

bool RunStreamedPacked(const Product& p, void* sums, uint32_t* flags, void* inputs, MapCache& maps,
                       Stream stream) {
  const uint32_t columns = RoundUp(p.k, kSpan);
  const auto run = [&]<uint32_t kRows>() {
    using S = Shape<kRows>;
    const uint64_t rows = (p.n + kTileRows - 1) / kTileRows;
    const uint64_t spans = SpansOf(p.k);
    const MatrixMap* const w = maps.Of(p.w, p.n, p.k, S::kPacked, [&](MatrixMap* map) {
      return DescribeWords(p.w, rows, spans * (kKindBytes / 8), S::kPacked, kKindBytes / 8, map);
    });
    const MatrixMap* const scales = maps.Of(p.scales, p.n, p.k, S::kPacked, [&](MatrixMap* map) {
      return DescribeWords(p.scales, rows, spans * (kScaleBytes / 8), S::kPacked, kScaleBytes / 8,
                           map);
    });
    const MatrixMap* const x = maps.Of(inputs, p.rows, columns, kRows, [&](MatrixMap* map) {
      return DescribeMatrix(inputs, p.rows, columns, kRows, map);
    });
    if (w == nullptr || scales == nullptr || x == nullptr) return false;
    const Parameters a{
        .w = *w, .scales = *scales, .x = *x, .share = ShareOf(p, S::kTile, kSpan, sums, flags)};
    const uint32_t threads = p.rows * (columns / 32);
    Launch(OrderKernel, dim3((threads + kOrderThreads - 1) / kOrderThreads), dim3(kOrderThreads), 0,
           stream, static_cast<const bf16*>(p.x), p.k, p.rows, static_cast<uint4*>(inputs),
           columns);
    const auto kernel = StreamedPackedKernel<kRows>;
    AllowShared(kernel, S::kShared);
    Launch(kernel, dim3(BlocksOf(a.share)), dim3(kThreads), S::kShared, stream, a);
    return true;
  };
  return p.rows <= 16   ? run.operator()<16>()
         : p.rows <= 32 ? run.operator()<32>()
         : p.rows <= 64 ? run.operator()<64>()
                        : run.operator()<128>();
}

}  // namespace pie::cuda
