#include "backend/cuda/kernels/low_rank.h"

#include "backend/cuda/kernels/launch.cuh"
#include "base/random.h"

namespace pie::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr uint64_t kNoiseColumns = uint64_t{1} << 32;  // ZoNoise::kColumns
constexpr uint32_t kExpertTargets = 3;                 // that of model/adapter/adapter.h

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

// The row of the batch whose adapter a row of the product uses, or kNone.
__device__ uint32_t BatchRowOf(const LowRankProduct& p, uint32_t row) {
  if (p.kind == LowRankRows::kReads) {
    const uint32_t read = p.first_read + row;
    return read < p.step->reads ? ArrayOf<uint32_t>(p.step, p.step->read_rows)[read] : kNone;
  }
  const uint32_t of_batch = p.kind == LowRankRows::kPairs ? row / p.used : row;
  return of_batch < p.step->rows ? of_batch : kNone;
}

// A column of A for a row that has this token alone.
__device__ void ShrinkToken(const LowRankProduct& p, const LowRankMatrix& matrix, uint32_t row,
                            float* h) {
  const uint32_t source = ArrayOf<uint32_t>(p.step, p.step->sources)[row];
  uint32_t token =
      source == kNone ? ArrayOf<uint32_t>(p.step, p.step->tokens)[row] : p.chosen[source];
  if (token >= p.vocab) token = 0;  // as the embedding does
  for (uint32_t j = threadIdx.x; j < matrix.rank; j += kThreads) {
    const size_t at = static_cast<size_t>(j) * p.x_stride + token;
    h[j] = __bfloat162float(static_cast<const bf16*>(matrix.a)[at]) * matrix.scale;
  }
}

// One block per row, target and strip.
__global__ void __launch_bounds__(kThreads) LowRankKernel(const LowRankProduct p) {
  __shared__ float h[kMaxRank];
  __shared__ float noise;
  LetNextStart();
  const uint32_t of_batch = BatchRowOf(p, blockIdx.x);
  AdapterUse use{};
  if (of_batch != kNone) use = ArrayOf<AdapterUse>(p.step, p.step->adapters)[of_batch];
  WaitForInputs();
  if (use.matrices == 0) return;
  const LowRankTarget target = p.of[blockIdx.y];
  uint32_t slot = target.slot;
  uint32_t row = blockIdx.x;  // of y
  uint32_t x_row = row;
  if (p.kind == LowRankRows::kPairs) {
    slot += p.routed[blockIdx.x] * kExpertTargets;
    row = p.places[blockIdx.x];
    x_row = p.x_is_sorted ? row : of_batch;
  }
  const LowRankMatrix matrix =
      reinterpret_cast<const LowRankMatrix*>(use.matrices)[p.layer * p.slots + slot];
  if (matrix.rank == 0) return;
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t warp = threadIdx.x / 32;
  if (p.kind == LowRankRows::kTokens) {
    ShrinkToken(p, matrix, of_batch, h);
  } else {
    const auto* const x = reinterpret_cast<const uint4*>(static_cast<const bf16*>(p.x) +
                                                         static_cast<size_t>(x_row) * p.x_stride);
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
  }
  __syncthreads();
  const uint64_t key = Mix(use.seed, p.layer, slot);
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
  const uint32_t strip = (target.out + p.strips - 1) / p.strips;
  const uint32_t end = min(target.out, (blockIdx.z + 1) * strip);
  for (uint32_t i = blockIdx.z * strip + threadIdx.x; i < end; i += kThreads) {
    const bf16* const b = static_cast<const bf16*>(matrix.b) + static_cast<size_t>(i) * matrix.rank;
    float sum = 0;
    for (uint32_t j = 0; j < matrix.rank; ++j) sum += __bfloat162float(b[j]) * h[j];
    if (use.seed != 0) sum += Sign(key, i) ? noise : -noise;
    sum *= p.factor;
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
  Launch(LowRankKernel, dim3(product.rows, product.targets, product.strips), dim3(kThreads), 0,
         stream, product);
}

}  // namespace pie::cuda
