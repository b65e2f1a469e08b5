// Blocks that wait for one another within a kernel, by letters in memory (resident_step.h). They
// must all run at the same time, so the launch is cooperative. The emulator has its own versions.
#pragma once

#include <cstdint>

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

__device__ inline void Send(uint64_t* to, uint32_t number, uint32_t phase) {
  asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(to),
               "l"(static_cast<uint64_t>(phase) << 32 | number)
               : "memory");
}
// Two letters that follow one another. 16 bytes, aligned.
__device__ inline void SendPair(uint64_t* to, uint32_t first, uint32_t second, uint32_t phase) {
  asm volatile("st.relaxed.gpu.global.v2.b64 [%0], {%1, %2};" ::"l"(to),
               "l"(static_cast<uint64_t>(phase) << 32 | first),
               "l"(static_cast<uint64_t>(phase) << 32 | second)
               : "memory");
}
// Two letters that follow one another, whether or not they have come. 16 bytes, aligned.
__device__ inline void LookAt(const uint64_t* from, uint64_t (&letters)[2]) {
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
               : "=l"(letters[0]), "=l"(letters[1])
               : "l"(from)
               : "memory");
}
__device__ inline void WaitALittle() {}

// Arrives at a barrier for several threads (bulk_copies.cuh).
__device__ inline void ArriveFor(uint64_t* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(arrivals)
               : "memory");
}

// Counters that all blocks add to.
__device__ inline uint32_t Count(uint32_t* counter) {
  uint32_t before = 0;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(counter)
               : "memory");
  return before;
}
__device__ inline void CountLater(uint32_t* counter) {  // nothing waits for it
  asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
__device__ inline uint32_t CountOf(const uint32_t* counter) {
  uint32_t now = 0;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
  return now;
}

// Orders this thread's writes to shared memory before later bulk copies that overwrite them.
__device__ inline void ShowToCopies() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace pie::cuda
#endif
