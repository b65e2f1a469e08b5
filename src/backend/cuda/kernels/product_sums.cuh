// What the kernels of products.h do with their sums: the warps of a block have each summed a part
// of k for 16 rows of W and 8 × kTiles rows of x, in the layout of a tensor core's result.
#pragma once

#include "backend/cuda/kernels/gate.cuh"
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/product.h"

namespace pie::cuda {

// Adds the warps' sums in their order, and writes those of rows [first, rows) of x and rows 16 ×
// `tile` … of W. Whole block.
template <int kTiles, int kWarps>
__device__ void WriteSums(const Product& p, ProductOutput output, const float* bias, uint32_t tile,
                          uint32_t first, uint32_t rows, const float (&acc)[kTiles][4],
                          float (&sums)[kWarps][kTiles * 4][32]) {
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
    const uint32_t row = first + eight * 8 + of_lane % 4 * 2 + pair;
    if (row >= rows) continue;
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
