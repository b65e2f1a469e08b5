// Blocks that wait for one another within a kernel. They must all run at the same time, so the
// launch is cooperative. The emulator has its own versions.
#pragma once

#include "backend/cuda/kernels/launch.cuh"
#include "backend/cuda/kernels/resident_layout.cuh"

#ifdef PIE_CUDA_EMULATED
#include "backend/cuda/emulator/meetings.h"
#else

namespace pie::cuda {

// Blocks of a kernel whose blocks meet: one on each multiprocessor.
inline uint32_t ResidentBlocks() {
  return static_cast<uint32_t>(processors);
}

// Whether one block of the kernel fits on each multiprocessor.
template <class Kernel>
bool CanMeet(Kernel* kernel, uint32_t threads, uint32_t shared_bytes) {
  if (!has_group_products) return false;  // Hopper's copies are needed
  AllowShared(kernel, shared_bytes);
  int blocks = 0;
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, static_cast<int>(threads),
                                                       shared_bytes) == cudaSuccess &&
         blocks > 0;
}

template <class... Parameters, class... Arguments>
void LaunchTogether(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                    cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

// The threads that compute, of one block.
__device__ inline void MeetConsumers() {
  asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory");
}

// Called by the computing threads of each block, after a MeetConsumers. What they wrote before can
// be read by LoadFresh after AwaitMeeting.
__device__ inline void ArriveAtMeeting(uint32_t* counter) {
  if (threadIdx.x != 0) return;
  __threadfence();
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
// Waits until `arrivals` have been counted.
__device__ inline void AwaitMeeting(const uint32_t* counter, uint32_t arrivals) {
  if (threadIdx.x == 0) {
    uint32_t now = 0;
    do {
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    } while (now < arrivals);
    __threadfence();
  }
  MeetConsumers();
}

// Reads what another block wrote in the same kernel: the first-level cache may be out of date.
template <class T>
__device__ T LoadFresh(const T* from) {
  return __ldcg(from);
}

}  // namespace pie::cuda
#endif
