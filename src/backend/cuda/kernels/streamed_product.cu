// A block has two warp groups that multiply, and two warps whose first threads ask for copies, one
// of W and one of x. They pass stages of shared memory to one another, each with 64 columns.
#include "backend/cuda/kernels/bulk_copies.cuh"
#include "backend/cuda/kernels/group_products.cuh"
#include "backend/cuda/kernels/streamed_product.h"
#include "backend/cuda/kernels/streamed_tiles.cuh"
#include "base/round_up.h"

namespace pie::cuda {
namespace {

constexpr uint32_t kThreads = kConsumers + 64;
constexpr uint32_t kStep = 64;         // columns
constexpr uint32_t kEight = 8 * 128;   // bytes of eight rows of a stage
constexpr uint32_t kBlock = 64 * 128;  // bytes of the 64 rows of W of one instruction
constexpr uint32_t kMostStages = 12;

template <uint32_t kRows, uint32_t kBlocks>
struct Shape {
  static constexpr uint32_t kTile = kStreamGroups * kBlocks * 64;  // rows of W
  static constexpr uint32_t kWeightBytes = kTile * 128;            // of a stage
  static constexpr uint32_t kInputBytes = kRows * 128;
  static constexpr uint32_t kInputStages = 4;
  static constexpr uint32_t kMost = (kRingBytes - kInputStages * kInputBytes) / kWeightBytes;
  static constexpr uint32_t kStages = kMost < kMostStages ? kMost : kMostStages;
  static constexpr uint32_t kInFlight = kBlocks == 1 ? 5 : 2;
  static constexpr uint32_t kInputsAt = kStages * kWeightBytes;
  static constexpr uint32_t kBarriersAt = kInputsAt + kInputStages * kInputBytes;
  static constexpr size_t kShared = kBarriersAt + (kStages + kInputStages) * 2 * sizeof(uint64_t);
  static_assert(kTile * kRows * sizeof(float) <= kSumBytes);
};

struct Parameters {
  MatrixMap w;
  MatrixMap x;
  StreamedShare share;
};

// One thread.
template <class S>
__device__ void CopyInputs(const Parameters& a, char* stages, uint64_t* full, uint64_t* empty) {
  WaitForInputs();
  Ring<S::kInputStages> ring;
  Walk walk(a.share);
  const uint32_t count = StepsOf(a.share);
  for (uint32_t i = 0; i < count; ++i) {
    if (i >= S::kInputStages) AwaitPhase(&empty[ring.stage], ring.parity ^ 1);
    ArriveExpecting(&full[ring.stage], S::kInputBytes);
    CopyBox(stages + ring.stage * S::kInputBytes, a.x, walk.step * kStep, 0, &full[ring.stage]);
    walk.Advance();
    ring.Advance();
  }
}

template <uint32_t kRows, uint32_t kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    StreamedProductKernel(const __grid_constant__ Parameters a) {
#if PIE_HAS_WGMMA
  using S = Shape<kRows, kBlocks>;
  constexpr uint32_t kTiles = kRows / 8;
  PIE_DYNAMIC_SHARED(char, shared);
  char* const inputs = shared + S::kInputsAt;
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
  if (warp == kConsumerWarps) {
    CopyWeights<S>(a.share, full, empty, [&](uint32_t stage, const Walk& walk) {
      CopyBox(shared + stage * S::kWeightBytes, a.w, walk.step * kStep, walk.tile * S::kTile,
              &full[stage]);
    });
    return;
  }
  if (warp > kConsumerWarps) {
    if (threadIdx.x % 32 == 0) CopyInputs<S>(a, inputs, inputs_full, inputs_empty);
    return;
  }

  WaitForInputs();
  const bool first_lane = threadIdx.x % 32 == 0;
  const uint32_t group = threadIdx.x / 128;
  Ring<S::kStages> ring;
  Ring<S::kInputStages> inputs_ring;
  Walk walk(a.share);
  do {
    float acc[kBlocks][kTiles][4] = {};
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b) Settle(acc[b]);
    uint64_t* last[2] = {};  // barriers of the stages before
    for (uint32_t step = walk.step; step < walk.past; ++step) {
      AwaitPhase(&full[ring.stage], ring.parity);
      AwaitPhase(&inputs_full[inputs_ring.stage], inputs_ring.parity);
      const uint32_t w =
          SharedAddress(shared) + ring.stage * S::kWeightBytes + group * kBlocks * kBlock;
      const uint32_t x = SharedAddress(inputs) + inputs_ring.stage * S::kInputBytes;
      BeginGroupProducts();
#pragma unroll
      for (uint32_t k = 0; k < kStep / 16; ++k) {
#pragma unroll
        for (uint32_t b = 0; b < kBlocks; ++b) {
          GroupScores(acc[b], OperandAt(w + b * kBlock + k * 32, kEight, 0),
                      OperandAt(x + k * 32, kEight, 0), k > 0 || step > walk.step);
        }
      }
      CommitGroupProducts();
      if (step > walk.step) {
        AwaitGroupProducts<1>();
        if (first_lane) {
          Arrive(last[0]);
          Arrive(last[1]);
        }
      }
      last[0] = &empty[ring.stage];
      last[1] = &inputs_empty[inputs_ring.stage];
      ring.Advance();
      inputs_ring.Advance();
    }
    AwaitGroupProducts<0>();
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b) Settle(acc[b]);
    if (first_lane) {
      Arrive(last[0]);
      Arrive(last[1]);
    }

    if (walk.past < walk.steps) {
      Leave(a.share, acc);
      continue;
    }
    if (walk.step > 0) Collect(a.share, walk.tile, acc);
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const uint32_t first = walk.tile * S::kTile + (group * kBlocks + b) * 64 + warp % 4 * 16;
      Write(a.share.product, first, acc[b]);
    }
  } while (walk.Next());
#endif
}

}  // namespace

std::unique_ptr<StreamedProducts> StreamedProducts::Make(uint32_t columns) {
  if (!has_group_products) return nullptr;
  std::unique_ptr<StreamedProducts> made(new StreamedProducts);
  const size_t flag_bytes = static_cast<size_t>(processors) * kConsumerWarps * sizeof(uint32_t);
  made->sums_ = Allocate(static_cast<size_t>(processors) * kSumBytes);
  made->flags_ = static_cast<uint32_t*>(Allocate(flag_bytes));
  made->columns_ = RoundUp(columns, kSpan);
  made->inputs_ = Allocate(uint64_t{kMostRows / 2} * made->columns_ * 2);
  if (made->sums_ == nullptr || made->flags_ == nullptr || made->inputs_ == nullptr) return nullptr;
  const Stream stream = MakeStream();
  Fill(made->flags_, 0, flag_bytes, stream);
  Synchronize(stream);
  DestroyStream(stream);
  return made;
}

StreamedProducts::~StreamedProducts() {
  Free(sums_);
  Free(flags_);
  Free(inputs_);
}

bool StreamedProducts::Takes(const Product& p, uint32_t tile) const {
  if (p.tiles != nullptr || p.x_rows != nullptr || p.rows == 0 || p.n == 0) return false;
  const bool fp8 = p.kind == WeightKind::kFp8;
  if (tile == 256 && (fp8 || p.rows > kMostRows / 2)) return false;
  if (fp8 && p.k > columns_) return false;
  return (fp8 || p.kind == WeightKind::kBf16) && p.x_stride == p.k && p.k % 8 == 0;
}

void StreamedProducts::Run(const Product& p, uint32_t tile, Stream stream) {
  const bool wide = p.output == ProductOutput::kFloat || p.output == ProductOutput::kAdd;
  const uint32_t most = p.kind == WeightKind::kFp8 ? kMostRows / 2 : kMostRows;
  for (uint32_t first = 0; first < p.rows; first += most) {
    Product part = p;
    part.rows = std::min(most, p.rows - first);
    part.x = static_cast<const char*>(p.x) + uint64_t{first} * p.x_stride * 2;
    part.y = static_cast<char*>(p.y) + uint64_t{first} * p.y_stride * (wide ? 4 : 2);
    RunPart(part, tile, stream);
  }
}

void StreamedProducts::RunPart(const Product& p, uint32_t tile, Stream stream) {
  if (p.kind == WeightKind::kFp8) {
    if (!RunStreamedPacked(p, sums_, flags_, inputs_, maps_, stream)) RunProduct(p, stream);
    return;
  }
  const auto run = [&]<uint32_t kRows, uint32_t kBlocks>() {
    using S = Shape<kRows, kBlocks>;
    const auto map_of = [&](const void* data, uint32_t rows, uint32_t box_rows) {
      return maps_.Of(data, rows, p.k, box_rows, [&](MatrixMap* map) {
        return DescribeMatrix(data, rows, p.k, box_rows, map);
      });
    };
    const MatrixMap* const w = map_of(p.w, p.n, S::kTile);
    const MatrixMap* const x = map_of(p.x, p.rows, kRows);
    if (w == nullptr || x == nullptr) return RunProduct(p, stream);
    const Parameters a{.w = *w, .x = *x, .share = ShareOf(p, S::kTile, kStep, sums_, flags_)};
    const auto kernel = StreamedProductKernel<kRows, kBlocks>;
    AllowShared(kernel, S::kShared);
    Launch(kernel, dim3(BlocksOf(a.share)), dim3(kThreads), S::kShared, stream, a);
  };
  const bool large = tile == 256;
  if (p.rows <= 16) {
    large ? run.operator()<16, 2>() : run.operator()<16, 1>();
  } else if (p.rows <= 32) {
    large ? run.operator()<32, 2>() : run.operator()<32, 1>();
  } else if (p.rows <= 64) {
    large ? run.operator()<64, 2>() : run.operator()<64, 1>();
  } else if (p.rows <= 128) {
    large ? run.operator()<128, 2>() : run.operator()<128, 1>();
  } else {
    run.operator()<256, 1>();
  }
}

}  // namespace pie::cuda
