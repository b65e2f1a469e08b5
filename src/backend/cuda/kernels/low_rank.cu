#include "backend/cuda/kernels/low_rank.h"

#include "backend/cuda/kernels/launch.cuh"
#include "base/random.h"

namespace pie::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint64_t kNoiseColumns = uint64_t{1} << 32;  // ZoNoise::kColumns

__device__ float Bf16(uint32_t pair, int half) {
  return __uint_as_float(half == 0 ? pair << 16 : pair & 0xFFFF0000U);
}

__device__ float Dot(uint32_t a, uint32_t b) {
  return Bf16(a, 0) * Bf16(b, 0) + Bf16(a, 1) * Bf16(b, 1);
}

__device__ bool Sign(uint64_t key, uint64_t index) {
  return (Mix(key, index / 64) >> (index % 64) & 1) != 0;
}

__device__ uint32_t ColumnOf(const LowRankProduct& p, const LowRankTarget& target, uint32_t i) {
  using Order = LowRankTarget::Order;
  uint32_t column = i;
  if (target.order == Order::kGrouped) {
    column = i / 8 * 16 + i % 8;
  } else if (target.order != Order::kPlain) {
    uint32_t within = i % p.head_size;
    if (target.order == Order::kNeighbours) {
      const uint32_t half = p.head_size / 2;
      within = within < half ? 2 * within : 2 * (within - half) + 1;
    }
    column = i / p.head_size * p.head_stride + within;
  }
  return target.first_column + column;
}

// One block a row and target.
__global__ void __launch_bounds__(kThreads) LowRankKernel(const LowRankProduct p) {
  __shared__ float h[kMaxRank];
  __shared__ float noise;
  LetNextStart();
  const uint32_t row = blockIdx.x;
  AdapterUse use{};
  if (row < p.step->rows) use = ArrayOf<AdapterUse>(p.step, p.step->adapters)[row];
  WaitForInputs();
  if (use.matrices == 0) return;
  const LowRankTarget target = p.of[blockIdx.y];
  const LowRankMatrix matrix = reinterpret_cast<const LowRankMatrix*>(
      use.matrices)[p.layer * p.layer_targets + target.target];
  if (matrix.rank == 0) return;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp = threadIdx.x / 32;
  const auto* const x = reinterpret_cast<const uint4*>(static_cast<const bf16*>(p.x) +
                                                       static_cast<size_t>(row) * p.x_stride);
  for (uint32_t j = warp; j < matrix.rank; j += kThreads / 32) {
    const auto* const a = reinterpret_cast<const uint4*>(static_cast<const bf16*>(matrix.a) +
                                                         static_cast<size_t>(j) * p.x_stride);
    float sum = 0;
    for (uint32_t i = lane; i < p.x_stride / 8; i += 32) {
      const uint4 u = x[i];
      const uint4 v = a[i];
      sum += Dot(u.x, v.x) + Dot(u.y, v.y) + Dot(u.z, v.z) + Dot(u.w, v.w);
    }
    sum = WarpSum(sum);
    if (lane == 0) h[j] = sum * matrix.scale;
  }
  __syncthreads();
  const uint64_t key = Mix(use.seed, p.layer, target.target);
  if (warp == 0) {
    float sum = 0;
    if (use.seed != 0) {
      for (uint32_t j = lane; j < matrix.rank; j += 32) {
        sum += (Mix(key, kNoiseColumns + j / 64) >> (j % 64) & 1) != 0 ? h[j] : -h[j];
      }
    }
    sum = WarpSum(sum);
    if (lane == 0) noise = sum * use.sigma;
  }
  __syncthreads();
  for (uint32_t i = threadIdx.x; i < target.out; i += kThreads) {
    const bf16* const b = static_cast<const bf16*>(matrix.b) + static_cast<size_t>(i) * matrix.rank;
    float sum = 0;
    for (uint32_t j = 0; j < matrix.rank; ++j) sum += __bfloat162float(b[j]) * h[j];
    if (use.seed != 0) sum += Sign(key, i) ? noise : -noise;
    const size_t at = static_cast<size_t>(row) * p.y_stride + ColumnOf(p, target, i);
    if (p.to_bf16) {
      bf16* const y = static_cast<bf16*>(p.y) + at;
      *y = __float2bfloat16(__bfloat162float(*y) + sum);
    } else {
      static_cast<float*>(p.y)[at] += sum;
    }
  }
}

}  // namespace

void RunLowRank(const LowRankProduct& product, Stream stream) {
  if (product.rows == 0 || product.targets == 0) return;
  Launch(LowRankKernel, dim3(product.rows, product.targets), dim3(kThreads), 0, stream, product);
}

}  // namespace pie::cuda
