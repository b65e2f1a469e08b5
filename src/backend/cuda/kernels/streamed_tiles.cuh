// What the kernels of streamed_product.h share: how the steps of all tiles are dealt to blocks, and
// how sums get from block to block and are written.
//
// The columns of all tiles, in steps, are dealt to the blocks in one line: block b has steps
// [b × steps / blocks, (b + 1) × steps / blocks). It takes them tile by tile from the end. Only the
// last tile of its range can end in a later block; its sums are written first. So they have long
// been there when that block, which comes to this tile last, needs them, and a block only waits for
// blocks before it, which have started.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cuda/kernels/bulk_copies.cuh"
#include "backend/cuda/kernels/gate.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/product.h"
#include "backend/cuda/kernels/streamed_product.h"

namespace pie::cuda {

inline constexpr uint32_t kStreamGroups = 2;  // warp groups of a block that multiply
inline constexpr uint32_t kConsumers = kStreamGroups * 128;
inline constexpr uint32_t kConsumerWarps = kConsumers / 32;
inline constexpr uint64_t kSumBytes = 128 * 1024;  // that a block leaves to another
// Of shared memory, for stages; leaves room for a small kernel's blocks.
inline constexpr uint32_t kRingBytes = 208 * 1024;

struct StreamedShare {
  Product product;
  float4* sums;     // [blocks, kSumBytes]
  uint32_t* flags;  // [blocks, kConsumerWarps]
  uint32_t steps;   // of a tile
  uint32_t all_steps;
};
inline StreamedShare ShareOf(const Product& p, uint32_t tile_rows, uint32_t step_columns,
                             void* sums, uint32_t* flags) {
  const uint32_t steps = (p.k + step_columns - 1) / step_columns;
  return {.product = p,
          .sums = static_cast<float4*>(sums),
          .flags = flags,
          .steps = steps,
          .all_steps = steps * ((p.n + tile_rows - 1) / tile_rows)};
}
// Blocks of a launch.
inline uint32_t BlocksOf(const StreamedShare& share) {
  return std::min(static_cast<uint32_t>(processors), share.all_steps);
}

// The same for packed weights in fp8, and at most 128 rows of x. `inputs` has room for x in another
// order. Returns false if the matrices cannot be described.
bool RunStreamedPacked(const Product& product, void* sums, uint32_t* flags, void* inputs,
                       MapCache& maps, Stream stream);

__device__ inline uint32_t FirstStepOf(const StreamedShare& a, uint32_t block) {
  return static_cast<uint32_t>(uint64_t{a.all_steps} * block / gridDim.x);
}

__device__ inline uint32_t StepsOf(const StreamedShare& a) {
  return FirstStepOf(a, blockIdx.x + 1) - FirstStepOf(a, blockIdx.x);
}

// Goes through the steps of a block.
struct Walk {
  __device__ explicit Walk(const StreamedShare& a)
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

  uint32_t begin, end;  // of the rest, after this part
  uint32_t steps;
  uint32_t tile = 0, step = 0, past = 0;
};

// Where a thread is in a ring of stages.
template <uint32_t kStages>
struct Ring {
  __device__ void Advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
  uint32_t stage = 0;
  uint32_t parity = 0;  // of the phase that the stage's barriers are in, from the start on
};

// Copies weights to the stages in order, as soon as there is room, by copy(stage, walk). At most
// S::kInFlight stages are asked for and have not come: more would not come faster, and everything
// else that is read would come later. Whole warp.
template <class S, class Copy>
__device__ void CopyWeights(const StreamedShare& a, uint64_t* full, uint64_t* empty,
                            const Copy& copy) {
  static_assert(S::kInFlight <= S::kStages);
  if (a.product.fresh) WaitForInputs();
  Ring<S::kStages> ring;
  Ring<S::kStages> come;
  Walk walk(a);
  const uint32_t count = StepsOf(a);
  for (uint32_t i = 0; i < count; ++i) {
    if (i >= S::kStages) AwaitPhase(&empty[ring.stage], ring.parity ^ 1);
    if (i >= S::kInFlight) {
      AwaitPhase(&full[come.stage], come.parity);
      come.Advance();
    }
    if (threadIdx.x % 32 == 0) {
      ArriveExpecting(&full[ring.stage], S::kWeightBytes);
      copy(ring.stage, walk);
    }
    walk.Advance();
    ring.Advance();
  }
  WaitForInputs();
}

// Leaves the warp's sums to a later block.
template <uint32_t kBlocks, uint32_t kTiles>
__device__ void Leave(const StreamedShare& a, const float (&acc)[kBlocks][kTiles][4]) {
  float4* const to = a.sums + blockIdx.x * (kSumBytes / sizeof(float4)) + threadIdx.x;
#pragma unroll
  for (uint32_t b = 0; b < kBlocks; ++b) {
#pragma unroll
    for (uint32_t t = 0; t < kTiles; ++t) {
      to[(b * kTiles + t) * kConsumers] =
          make_float4(acc[b][t][0], acc[b][t][1], acc[b][t][2], acc[b][t][3]);
    }
  }
  __syncwarp();
  if (threadIdx.x % 32 == 0) Raise(&a.flags[blockIdx.x * kConsumerWarps + threadIdx.x / 32]);
}

// Adds the sums that earlier blocks have left for this tile, in the order of the blocks.
template <uint32_t kBlocks, uint32_t kTiles>
__device__ void Collect(const StreamedShare& a, uint32_t tile, float (&acc)[kBlocks][kTiles][4]) {
  constexpr uint32_t kVectors = kBlocks * kTiles;
  // Blocks whose sums are loaded at a time: one load takes as long as several.
  constexpr uint32_t kAtOnce = kVectors <= 4 ? 4 : kVectors <= 8 ? 2 : 1;
  const uint32_t lane = threadIdx.x % 32;
  const uint64_t first_step = uint64_t{tile} * a.steps;
  const auto first = static_cast<uint32_t>(((first_step + 1) * gridDim.x - 1) / a.all_steps);
  for (uint32_t block = first + lane; block < blockIdx.x; block += 32) {
    uint32_t* const flag = &a.flags[block * kConsumerWarps + threadIdx.x / 32];
    AwaitRaised(flag);
    *flag = 0;  // for the next launch
  }
  __syncwarp();
  for (uint32_t block = first; block < blockIdx.x; block += kAtOnce) {
    float4 sums[kAtOnce][kVectors];
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
      const float4* const from = a.sums + (block + i) * (kSumBytes / sizeof(float4)) + threadIdx.x;
#pragma unroll
      for (uint32_t v = 0; v < kVectors; ++v) {
        sums[i][v] = make_float4(0, 0, 0, 0);
        if (block + i < blockIdx.x) sums[i][v] = __ldcg(&from[v * kConsumers]);
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce; ++i) {
#pragma unroll
      for (uint32_t v = 0; v < kVectors; ++v) {
        float(&to)[4] = acc[v / kTiles][v % kTiles];
        to[0] += sums[i][v].x;
        to[1] += sums[i][v].y;
        to[2] += sums[i][v].z;
        to[3] += sums[i][v].w;
      }
    }
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

}  // namespace pie::cuda
