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

// Bytes below 0x70 are numbers below 16, which the scale makes the largest.
__global__ void FillFp8Kernel(uint32_t* words, uint64_t count, float* scales, uint64_t scale_count,
                              uint32_t seed, float range) {
  WaitForInputs();
  const uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  const uint64_t first = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (uint64_t i = first; i < count; i += step) {
    uint32_t word = 0;
    for (uint32_t b = 0; b < 4; ++b) {
      const float uniform = CounterRng{seed}.Float(4 * i + b) * 2 - 1;
      const uint32_t bits = __float_as_uint(fabsf(uniform) * 15);
      // The exponent and the first three bits of the fraction; numbers that are too small become
      // zero.
      const uint32_t number = bits >> 20 > 120U * 8 ? (bits >> 20) - 120U * 8 : 0U;
      word |= (number | (uniform < 0 ? 0x80U : 0U)) << (8 * b);
    }
    words[i] = word;
  }
  for (uint64_t i = first; i < scale_count; i += step) scales[i] = range / 15;
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

void FillRandomFp8(void* bytes, uint64_t count, float* scales, uint64_t scale_count, uint32_t seed,
                   float range, Stream stream) {
  Launch(FillFp8Kernel, dim3(2048), dim3(256), 0, stream, static_cast<uint32_t*>(bytes), count / 4,
         scales, scale_count, seed, range);
}

void ReadAll(const void* memory, uint64_t bytes, uint32_t* sink, Stream stream) {
  Launch(ReadKernel, dim3(132 * 8), dim3(256), 0, stream, static_cast<const uint4*>(memory),
         bytes / 16, sink);
}

}  // namespace pie::cuda
