// Experts: assigns rows to experts.
#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/layer.h"

namespace pie::cuda {
namespace {

constexpr uint32_t kRouteThreads = 128;
constexpr uint32_t kSortThreads = 1024;

// One warp per row: takes the largest logit `used` times, the lowest number among equals.
__global__ void __launch_bounds__(kRouteThreads) RouteKernel(const Routing r) {
  LetNextStart();
  WaitForInputs();
  const uint32_t row = blockIdx.x * (kRouteThreads / 32) + threadIdx.x / 32;
  if (row >= r.rows) return;
  const uint32_t lane = threadIdx.x % 32;
  const float* const logits = r.logits + static_cast<size_t>(row) * r.experts;
  uint32_t* const chosen = r.chosen + static_cast<size_t>(row) * r.used;
  float* const shares = r.shares + static_cast<size_t>(row) * r.used;
  float most = 0;
  float sum = 0;
  for (uint32_t n = 0; n < r.used; ++n) {
    float best = -INFINITY;
    uint32_t at = kNone;
    for (uint32_t e = lane; e < r.experts; e += 32) {
      bool taken = false;
      for (uint32_t i = 0; i < n; ++i) taken = taken || chosen[i] == e;
      if (!taken && (at == kNone || logits[e] > best)) {
        best = logits[e];
        at = e;
      }
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
      const float other = __shfl_xor_sync(0xFFFFFFFFU, best, offset);
      const uint32_t other_at = __shfl_xor_sync(0xFFFFFFFFU, at, offset);
      const bool better =
          other_at != kNone && (at == kNone || other > best || (other == best && other_at < at));
      if (better) {
        best = other;
        at = other_at;
      }
    }
    if (at == kNone) at = n;  // a row of NaN
    if (n == 0) most = best;
    const float share = __expf(best - most);
    sum += share;
    if (lane == 0) {
      chosen[n] = at;
      shares[n] = share;
    }
    __syncwarp();
  }
  if (!r.renormalize) {
    sum = 0;
    for (uint32_t e = lane; e < r.experts; e += 32) sum += __expf(logits[e] - most);
    sum = WarpSum(sum);
  }
  __syncwarp();
  for (uint32_t n = lane; n < r.used; n += 32) shares[n] /= sum;
}

// One block sorts all pairs by expert. Pairs of one expert keep their order, so that results do not
// depend on timing.
__global__ void __launch_bounds__(kSortThreads) SortKernel(const Routing r) {
  PIE_DYNAMIC_SHARED(uint32_t, begin);  // [experts + 1]
  LetNextStart();
  WaitForInputs();
  const uint32_t pairs = min(r.rows, r.step->rows) * r.used;
  for (uint32_t e = threadIdx.x; e <= r.experts; e += kSortThreads) begin[e] = 0;
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < pairs; i += kSortThreads) {
    atomicAdd(&begin[r.chosen[i] + 1], 1U);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    uint32_t tiles = 0;
    for (uint32_t e = 0; e < r.experts; ++e) {
      const uint32_t count = begin[e + 1];
      for (uint32_t at = 0; at < count; at += kExpertTileRows) {
        r.tiles[tiles++] = {e, begin[e] + at, min(kExpertTileRows, count - at)};
      }
      begin[e + 1] += begin[e];
    }
    *r.tile_count = tiles;
  }
  __syncthreads();
  // One thread per expert keeps the order. There are few pairs, and they are in the cache.
  for (uint32_t e = threadIdx.x; e < r.experts; e += kSortThreads) {
    uint32_t at = begin[e];
    if (at == begin[e + 1]) continue;
    for (uint32_t i = 0; i < pairs; ++i) {
      if (r.chosen[i] != e) continue;
      r.place[i] = at;
      r.sorted_row[at++] = i / r.used;
    }
  }
}

__global__ void __launch_bounds__(256)
    CombineExpertsKernel(const float* down, const uint32_t* place, const float* shares, float* out,
                         bool add, uint32_t used, uint32_t hidden, const StepHeader* step) {
  LetNextStart();
  WaitForInputs();
  const size_t row = blockIdx.x;
  if (row >= step->rows) return;
  for (uint32_t i = threadIdx.x; i < hidden; i += blockDim.x) {
    float sum = add ? out[row * hidden + i] : 0.0F;
    for (uint32_t n = 0; n < used; ++n) {
      const size_t pair = row * used + n;
      sum += shares[pair] * down[static_cast<size_t>(place[pair]) * hidden + i];
    }
    out[row * hidden + i] = sum;
  }
}

}  // namespace

void RunRouting(const Routing& r, Stream stream) {
  const uint32_t rows_a_block = kRouteThreads / 32;
  Launch(RouteKernel, dim3((r.rows + rows_a_block - 1) / rows_a_block), dim3(kRouteThreads), 0,
         stream, r);
  Launch(SortKernel, dim3(1), dim3(kSortThreads), (r.experts + 1) * sizeof(uint32_t), stream, r);
}

void RunCombineExperts(const float* down, const uint32_t* place, const float* shares, float* out,
                       bool add, uint32_t rows, uint32_t used, uint32_t hidden,
                       const StepHeader* step, Stream stream) {
  Launch(CombineExpertsKernel, dim3(rows), dim3(256), 0, stream, down, place, shares, out, add,
         used, hidden, step);
}

}  // namespace pie::cuda
