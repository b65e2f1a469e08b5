// The beginning and the end of the kernels of product.h. A block multiplies 16 rows of W by up to
// 8 × kTiles rows of x. Each of its warps sums a part of k, in the layout of a tensor core's
// result.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/gate.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/product.h"

namespace pie::cuda {

// The rows of x that a block multiplies, [first, end), and the expert whose matrix it uses.
struct BlockRows {
  uint32_t first;
  uint32_t end;
  uint32_t expert;  // 0 without experts
};

// Finds the rows of block number `block`, of at most `most` rows. Returns false if the block has no
// work. With experts, an earlier kernel has written the tiles, so this waits for the inputs.
__device__ inline bool FindRows(const Product& p, uint32_t block, uint32_t most, BlockRows& of) {
  of = {block * most, p.rows, 0};
  if (p.tiles == nullptr) return true;
  WaitForInputs();
  if (block >= *p.tile_count) return false;
  const ExpertTile tile = p.tiles[block];
  of = {tile.first, tile.first + tile.rows, tile.expert};
  return true;
}

// The bias of the block's expert, or null.
__device__ inline const float* BiasOf(const Product& p, const BlockRows& of) {
  return p.bias == nullptr ? nullptr : p.bias + static_cast<size_t>(of.expert) * p.n;
}

// The rows of x that this thread reads. Rows after the last one repeat it.
template <int kTiles>
__device__ void FindInputs(const Product& p, const BlockRows& of, int lane,
                           const bf16* (&x)[kTiles]) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    uint32_t row = min(of.first + t * 8 + lane / 4, of.end - 1);
    if (p.x_rows != nullptr) row = p.x_rows[row];
    x[t] = static_cast<const bf16*>(p.x) + static_cast<size_t>(row) * p.x_stride;
  }
}

// Adds the warps' sums in their order, and writes those of the rows `of` of x and rows 16 ×
// `tile` … of W. Whole block.
template <int kTiles, int kWarps>
__device__ void WriteSums(const Product& p, ProductOutput output, uint32_t tile,
                          const BlockRows& of, const float (&acc)[kTiles][4],
                          float (&sums)[kWarps][kTiles * 4][32]) {
  const float* const bias = BiasOf(p, of);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sums[warp][t * 4 + i][lane] = acc[t][i];
  }
  __syncthreads();
  const auto sum_of = [&](int index, int of_lane) {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kWarps; ++i) sum += sums[i][index][of_lane];
    return sum;
  };
  // Numbers 0 and 1 of a thread belong to row lane / 4 of W, numbers 2 and 3 to the row 8 below.
  for (int i = threadIdx.x; i < kTiles * 64; i += kWarps * 32) {
    const int of_lane = i % 32;
    const int pair = i / 32 % 2;
    const int eight = i / 64;  // of the rows of x
    const uint32_t row = of.first + eight * 8 + of_lane % 4 * 2 + pair;
    if (row >= of.end) continue;
    float upper = sum_of(eight * 4 + pair, of_lane);
    float lower = sum_of(eight * 4 + pair + 2, of_lane);
    const uint32_t at = tile * 16 + of_lane / 4;
    if (bias != nullptr) {
      if (at < p.n) upper += bias[at];
      if (at + 8 < p.n) lower += bias[at + 8];
    }
    if (output == ProductOutput::kGated) {
      const uint32_t out = tile * 8 + of_lane / 4;
      if (out < p.n / 2) {
        static_cast<bf16*>(p.y)[static_cast<size_t>(row) * p.y_stride + out] =
            __float2bfloat16(GateOf(p.gate, upper, lower));
      }
    } else if (output == ProductOutput::kBf16) {
      bf16* const y = static_cast<bf16*>(p.y) + static_cast<size_t>(row) * p.y_stride;
      if (at < p.n) y[at] = __float2bfloat16(upper);
      if (at + 8 < p.n) y[at + 8] = __float2bfloat16(lower);
    } else {
      float* const y = static_cast<float*>(p.y) + static_cast<size_t>(row) * p.y_stride;
      const bool add = output == ProductOutput::kAdd;
      if (at < p.n) y[at] = add ? y[at] + upper : upper;
      if (at + 8 < p.n) y[at + 8] = add ? y[at + 8] + lower : lower;
    }
  }
}

}  // namespace pie::cuda
