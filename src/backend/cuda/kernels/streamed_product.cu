// A block has two warp groups that multiply, and a warp whose first thread asks for copies. They
// pass stages of shared memory to one another, each with 64 columns of a tile of W and of x.
//
// The columns of all tiles, in steps of 64, are dealt to the blocks in one line: block b has steps
// [b × steps / blocks, (b + 1) × steps / blocks). It takes them tile by tile from the end. Only the
// last tile of its range can end in a later block; its sums are written first. So they have long
// been there when that block, which comes to this tile last, needs them, and a block only waits for
// blocks before it, which have started.
#include <algorithm>

#include "backend/cuda/kernels/bulk_copies.cuh"
#include "backend/cuda/kernels/gate.cuh"
#include "backend/cuda/kernels/group_products.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/streamed_product.h"

namespace pie::cuda {
namespace {

constexpr uint32_t kGroups = 2;  // that multiply
constexpr uint32_t kConsumers = kGroups * 128;
constexpr uint32_t kThreads = kConsumers + 32;
constexpr uint32_t kWarps = kConsumers / 32;
constexpr uint32_t kStep = 64;          // columns
constexpr uint32_t kEight = 8 * 128;    // bytes of eight rows of a stage
constexpr uint32_t kBlock = 64 * 128;   // bytes of the 64 rows of W of one instruction
constexpr uint32_t kRing = 208 * 1024;  // bytes; leaves room for a small kernel's blocks
constexpr uint32_t kMostStages = 16;
constexpr uint64_t kSumBytes = 128 * 1024;  // that a block leaves to another

template <uint32_t kRows, uint32_t kBlocks>
struct Shape {
  static constexpr uint32_t kTile = kGroups * kBlocks * 64;  // rows of W
  static constexpr uint32_t kWeightBytes = kTile * 128;
  static constexpr uint32_t kStageBytes = kWeightBytes + kRows * 128;
  static constexpr uint32_t kStages =
      kRing / kStageBytes < kMostStages ? kRing / kStageBytes : kMostStages;
  static constexpr size_t kShared = kStages * kStageBytes + kStages * 2 * sizeof(uint64_t);
  static_assert(kTile * kRows * sizeof(float) <= kSumBytes);
};

struct Parameters {
  MatrixMap w;
  MatrixMap x;
  Product product;
  float4* sums;
  uint32_t* flags;
  uint32_t steps;  // of a tile
  uint32_t all_steps;
};

__device__ inline uint32_t FirstStepOf(const Parameters& a, uint32_t block) {
  return static_cast<uint32_t>(uint64_t{a.all_steps} * block / gridDim.x);
}

// Goes through the steps of a block.
struct Walk {
  __device__ explicit Walk(const Parameters& a)
      : begin(FirstStepOf(a, blockIdx.x)), end(FirstStepOf(a, blockIdx.x + 1)), steps(a.steps) {
    Next();
  }
  // Goes to the part of the next tile. False if there is none.
  __device__ bool Next() {
    if (end <= begin) return false;
    tile = (end - 1) / steps;
    const uint32_t first_of_tile = tile * steps;
    const uint32_t first = max(begin, first_of_tile);
    step = first - first_of_tile;
    past = end - first_of_tile;
    end = first;
    return true;
  }
  // Goes to the next step.
  __device__ void Advance() {
    if (++step == past) Next();
  }

  uint32_t begin, end;  // of what is left after this part
  uint32_t steps;
  uint32_t tile = 0, step = 0, past = 0;
};

// Copies the stages in order, those that fit at once before the inputs are there.
template <class S>
__device__ void Copy(const Parameters& a, char* stages, uint64_t* full, uint64_t* empty) {
  const uint32_t count = FirstStepOf(a, blockIdx.x + 1) - FirstStepOf(a, blockIdx.x);
  const uint32_t ahead = min(count, S::kStages);
  Walk weights(a);
  const auto copy_weights = [&](uint32_t stage) {
    ArriveExpecting(&full[stage], S::kStageBytes);
    CopyBox(stages + stage * S::kStageBytes, a.w, weights.step * kStep, weights.tile * S::kTile,
            &full[stage]);
    weights.Advance();
  };
  Walk inputs(a);
  const auto copy_inputs = [&](uint32_t stage) {
    CopyBox(stages + stage * S::kStageBytes + S::kWeightBytes, a.x, inputs.step * kStep, 0,
            &full[stage]);
    inputs.Advance();
  };
  if (!a.product.fresh) {
    for (uint32_t i = 0; i < ahead; ++i) copy_weights(i);
  }
  WaitForInputs();
  for (uint32_t i = 0; i < ahead; ++i) {
    if (a.product.fresh) copy_weights(i);
    copy_inputs(i);
  }
  uint32_t stage = 0;
  uint32_t parity = 0;
  for (uint32_t i = ahead; i < count; ++i) {
    AwaitPhase(&empty[stage], parity);
    copy_weights(stage);
    copy_inputs(stage);
    if (++stage == S::kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
}

// Leaves the warp's sums to a later block.
template <uint32_t kBlocks, uint32_t kTiles>
__device__ void Leave(const Parameters& a, const float (&acc)[kBlocks][kTiles][4]) {
  float4* const to = a.sums + blockIdx.x * (kSumBytes / sizeof(float4)) + threadIdx.x;
#pragma unroll
  for (uint32_t b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      to[(b * kTiles + t) * kConsumers] =
          make_float4(acc[b][t][0], acc[b][t][1], acc[b][t][2], acc[b][t][3]);
    }
  }
  __threadfence();
  __syncwarp();
  if (threadIdx.x % 32 == 0) Raise(&a.flags[blockIdx.x * kWarps + threadIdx.x / 32]);
}

// Adds the sums that earlier blocks have left for this tile.
template <uint32_t kBlocks, uint32_t kTiles>
__device__ void Collect(const Parameters& a, uint32_t tile, float (&acc)[kBlocks][kTiles][4]) {
  const uint64_t first = uint64_t{tile} * a.steps;
  uint32_t block = static_cast<uint32_t>(((first + 1) * gridDim.x - 1) / a.all_steps);
  for (; block < blockIdx.x; ++block) {
    uint32_t* const flag = &a.flags[block * kWarps + threadIdx.x / 32];
    if (threadIdx.x % 32 == 0) AwaitRaised(flag);
    __syncwarp();
    const float4* const from = a.sums + block * (kSumBytes / sizeof(float4)) + threadIdx.x;
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b) {
#pragma unroll
      for (uint32_t t = 0; t < kTiles; ++t) {
        const float4 sum = __ldcg(&from[(b * kTiles + t) * kConsumers]);
        acc[b][t][0] += sum.x;
        acc[b][t][1] += sum.y;
        acc[b][t][2] += sum.z;
        acc[b][t][3] += sum.w;
      }
    }
    if (threadIdx.x % 32 == 0) *flag = 0;  // for the next launch
  }
}

// Writes the sums of 16 rows of W, which begin at `first`, that the warp has. Numbers 0 and 1 of a
// thread belong to row lane / 4 of W, numbers 2 and 3 to the row 8 below.
template <uint32_t kTiles>
__device__ void Write(const Product& p, uint32_t first, float (&acc)[kTiles][4]) {
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t at = first + lane / 4;
  const bool upper_is = at < p.n;
  const bool lower_is = at + 8 < p.n;
  if (p.bias != nullptr) {
    const float upper = upper_is ? p.bias[at] : 0;
    const float lower = lower_is ? p.bias[at + 8] : 0;
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) acc[t][i] += i < 2 ? upper : lower;
    }
  }
#pragma unroll
  for (uint32_t t = 0; t < kTiles; ++t) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t row = t * 8 + lane % 4 * 2 + i;
      if (row >= p.rows) continue;
      const float upper = acc[t][i];
      const float lower = acc[t][i + 2];
      const size_t line = static_cast<size_t>(row) * p.y_stride;
      if (p.output == ProductOutput::kGated) {
        const uint32_t out = first / 2 + lane / 4;
        if (out < p.n / 2) {
          static_cast<bf16*>(p.y)[line + out] = __float2bfloat16(GateOf(p.gate, upper, lower));
        }
      } else if (p.output == ProductOutput::kBf16) {
        bf16* const y = static_cast<bf16*>(p.y) + line;
        if (upper_is) y[at] = __float2bfloat16(upper);
        if (lower_is) y[at + 8] = __float2bfloat16(lower);
      } else if (p.output == ProductOutput::kAdd) {
        // Each number gets one addend, so the order does not matter, and nothing is waited for.
        float* const y = static_cast<float*>(p.y) + line;
        if (upper_is) atomicAdd(&y[at], upper);
        if (lower_is) atomicAdd(&y[at + 8], lower);
      } else {
        float* const y = static_cast<float*>(p.y) + line;
        if (upper_is) y[at] = upper;
        if (lower_is) y[at + 8] = lower;
      }
    }
  }
}

template <uint32_t kRows, uint32_t kBlocks>
__global__ void __launch_bounds__(kThreads, 1)
    StreamedProductKernel(const __grid_constant__ Parameters a) {
#if PIE_HAS_WGMMA
  using S = Shape<kRows, kBlocks>;
  constexpr uint32_t kTiles = kRows / 8;
  PIE_DYNAMIC_SHARED(char, shared);
  auto* const full = reinterpret_cast<uint64_t*>(shared + S::kStages * S::kStageBytes);
  uint64_t* const empty = full + S::kStages;
  LetNextStart();
  if (threadIdx.x == kConsumers) {
    for (uint32_t i = 0; i < S::kStages; ++i) {
      InitBarrier(&full[i], 1);
      InitBarrier(&empty[i], kWarps);
    }
  }
  __syncthreads();
  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers) Copy<S>(a, shared, full, empty);
    return;
  }

  WaitForInputs();
  const bool first_lane = threadIdx.x % 32 == 0;
  const uint32_t group = threadIdx.x / 128;
  const uint32_t stages = SharedAddress(shared);
  uint32_t stage = 0;
  uint32_t parity = 0;
  Walk walk(a);
  do {
    float acc[kBlocks][kTiles][4] = {};
    uint32_t last = 0;  // the stage before
    for (uint32_t step = walk.step; step < walk.past; ++step) {
      AwaitPhase(&full[stage], parity);
      const uint32_t w = stages + stage * S::kStageBytes + group * kBlocks * kBlock;
      const uint32_t x = stages + stage * S::kStageBytes + S::kWeightBytes;
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
        if (first_lane) Arrive(&empty[last]);
      }
      last = stage;
      if (++stage == S::kStages) {
        stage = 0;
        parity ^= 1;
      }
    }
    AwaitGroupProducts<0>();
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b) Settle(acc[b]);
    if (first_lane) Arrive(&empty[last]);

    if (walk.past < walk.steps) {
      Leave(a, acc);
      continue;
    }
    if (walk.step > 0) Collect(a, walk.tile, acc);
#pragma unroll
    for (uint32_t b = 0; b < kBlocks; ++b) {
      const uint32_t first =
          walk.tile * S::kTile + (group * kBlocks + b) * 64 + threadIdx.x % 128 / 32 * 16;
      Write(a.product, first, acc[b]);
    }
  } while (walk.Next());
#endif
}

}  // namespace

std::unique_ptr<StreamedProducts> StreamedProducts::Make() {
  if (!has_group_products) return nullptr;
  std::unique_ptr<StreamedProducts> made(new StreamedProducts);
  const size_t flag_bytes = static_cast<size_t>(processors) * kWarps * sizeof(uint32_t);
  made->sums_ = Allocate(static_cast<size_t>(processors) * kSumBytes);
  made->flags_ = static_cast<uint32_t*>(Allocate(flag_bytes));
  if (made->sums_ == nullptr || made->flags_ == nullptr) return nullptr;
  const Stream stream = MakeStream();
  Fill(made->flags_, 0, flag_bytes, stream);
  Synchronize(stream);
  DestroyStream(stream);
  return made;
}

StreamedProducts::~StreamedProducts() {
  Free(sums_);
  Free(flags_);
}

const MatrixMap* StreamedProducts::MapOf(const void* data, uint32_t rows, uint32_t columns,
                                         uint32_t box_rows) {
  const auto [at, is_new] = maps_.try_emplace({data, rows, columns, box_rows});
  if (is_new && !DescribeMatrix(data, rows, columns, box_rows, &at->second)) {
    maps_.erase(at);
    return nullptr;
  }
  return &at->second;
}

bool StreamedProducts::Takes(const Product& p, uint32_t tile) const {
  return p.kind == WeightKind::kBf16 && p.tiles == nullptr && p.x_rows == nullptr &&
         p.x_stride == p.k && p.k % 8 == 0 && p.rows > 0 && p.n > 0 &&
         p.rows <= (tile == 128 ? kMostRows : kMostRows / 2);
}

void StreamedProducts::Run(const Product& p, uint32_t tile, Stream stream) {
  const auto run = [&]<uint32_t kRows, uint32_t kBlocks>() {
    using S = Shape<kRows, kBlocks>;
    const MatrixMap* const w = MapOf(p.w, p.n, p.k, S::kTile);
    const MatrixMap* const x = MapOf(p.x, p.rows, p.k, kRows);
    if (w == nullptr || x == nullptr) return RunProduct(p, stream);
    Parameters a{.w = *w,
                 .x = *x,
                 .product = p,
                 .sums = static_cast<float4*>(sums_),
                 .flags = flags_,
                 .steps = (p.k + kStep - 1) / kStep,
                 .all_steps = 0};
    a.all_steps = a.steps * ((p.n + S::kTile - 1) / S::kTile);
    const auto kernel = StreamedProductKernel<kRows, kBlocks>;
    AllowShared(kernel, S::kShared);
    Launch(kernel, dim3(std::min(static_cast<uint32_t>(processors), a.all_steps)), dim3(kThreads),
           S::kShared, stream, a);
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
