#include "backend/cuda/kernels/random_fill.h"

#include "backend/cuda/kernels/launch.cuh"
#include "base/random.h"

namespace pie::cuda {
namespace {

__global__ void FillKernel(bf16* numbers, uint64_t count, uint32_t seed, float range) {
  WaitForInputs();
  const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const float uniform = CounterRng{seed}.Float(i);
    numbers[i] = __float2bfloat16((uniform * 2 - 1) * range);
  }
}

__global__ void ReadKernel(const uint4* memory, uint64_t count, uint32_t* sink) {
  WaitForInputs();
  const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  uint32_t sum = 0;
#pragma unroll 8
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += step) {
    const uint4 v = __ldcs(memory + i);
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678U) *sink = sum;  // keeps the loads
}

}  // namespace

void FillRandom(void* numbers, uint64_t count, uint32_t seed, float range, Stream stream) {
  Launch(FillKernel, dim3(2048), dim3(256), 0, stream, static_cast<bf16*>(numbers), count, seed,
         range);
}

void ReadAll(const void* memory, uint64_t bytes, uint32_t* sink, Stream stream) {
  Launch(ReadKernel, dim3(132 * 8), dim3(256), 0, stream, static_cast<const uint4*>(memory),
         bytes / 16, sink);
}

}  // namespace pie::cuda
