// What every kernel file needs: launches that overlap with the kernel before, and conversions.
//
// All kernels of a step are launched with programmatic dependent launch: a kernel's blocks start
// while the kernel before still runs, and wait (WaitForInputs) before they touch anything that
// another kernel writes. Weights and the step's inputs (step.h) are constant during a step, so they
// may be read before the wait. Every block of every kernel must call WaitForInputs, also one that
// has nothing to do, because the next kernel relies on it.
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/instructions.cuh"

namespace pie::cuda {

// True if the current device knows programmatic dependent launch. Set by OpenDevice (runtime.h).
extern bool overlapping_launches;
// True if the current device has the products of group_products.cuh. Set by OpenDevice, too.
extern bool has_group_products;
// Multiprocessors of the current device. Set by OpenDevice, too.
extern int processors;

template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, Arguments... arguments) {
#ifdef PIE_CUDA_EMULATED
  emulator::Submit(grid, block, shared_bytes,
                   [=] { kernel(static_cast<Parameters>(arguments)...); });
#else
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &attribute;
  config.numAttrs = overlapping_launches ? 1 : 0;
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
#endif
}

// Lets a kernel use more than 48 KB of shared memory. Cheap enough to be called at every launch.
template <class Kernel>
void AllowShared(Kernel* kernel, size_t bytes) {
  if (bytes > 48 * 1024) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
  }
}

__device__ inline float WarpSum(float value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset >>= 1) {
    value += __shfl_xor_sync(0xFFFFFFFFU, value, offset);
  }
  return value;
}

// Sums over the block, for all of its threads. `scratch` has 33 floats. Whole warps only.
__device__ inline float BlockSum(float value, float* scratch) {
  value = WarpSum(value);
  const unsigned warp = threadIdx.x / 32;
  __syncthreads();
  if (threadIdx.x % 32 == 0) scratch[warp] = value;
  __syncthreads();
  if (warp == 0) {
    value = threadIdx.x < blockDim.x / 32 ? scratch[threadIdx.x] : 0.0F;
    value = WarpSum(value);
    if (threadIdx.x == 0) scratch[32] = value;
  }
  __syncthreads();
  return scratch[32];
}

__device__ inline uint32_t PackBf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&pair);
}

}  // namespace pie::cuda
