// What every kernel file needs: launches that overlap with the kernel before, and conversions.
//
// All kernels of a step are launched with programmatic dependent launch: a kernel's blocks start
// while the kernel before still runs, and wait (WaitForInputs) before they touch anything that
// another kernel writes. Weights and the step's inputs (step.h) are constant during a step, so they
// may be read before the wait. Every block of every kernel must call WaitForInputs, also one that
// has nothing to do, because the next kernel relies on it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace pie::cuda {

using bf16 = __nv_bfloat16;

// True if the current device knows programmatic dependent launch. Set by OpenDevice (runtime.h).
extern bool overlapping_launches;
// Multiprocessors of the current device. Set by OpenDevice, too.
extern int processors;

template <class... Parameters, class... Arguments>
void Launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
            cudaStream_t stream, Arguments... arguments) {
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
}

// Lets a kernel use more than 48 KB of shared memory. Cheap enough to be called at every launch.
template <class Kernel>
void AllowShared(Kernel* kernel, size_t bytes) {
  if (bytes > 48 * 1024) {
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
  }
}

// Waits until everything that earlier kernels of the stream wrote can be read.
__device__ inline void WaitForInputs() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the next kernel's blocks start as soon as there is room for them.
__device__ inline void LetNextStart() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
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

// d += a · b for tiles of 16 × 16 and 16 × 8 numbers.
__device__ inline void Mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                           uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

}  // namespace pie::cuda
