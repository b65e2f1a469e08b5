// Hopper's bulk copies: one thread asks the copy engine for kilobytes, which arrive in shared
// memory while the threads do something else. Barriers in shared memory tell when they have come.
// The emulator has its own versions.
//
// A barrier counts arrivals and bytes. Its phase ends when all arrivals of InitBarrier were made
// and all expected bytes have come; then the next phase begins with the same count. Phases have
// parity 0, 1, 0, 1 …
#pragma once

#include <cstdint>

#include "backend/cuda/kernels/instructions.cuh"
#include "backend/cuda/kernels/runtime.h"

#ifdef PIE_CUDA_EMULATED
#include "backend/cuda/emulator/bulk_copies.h"
#else

namespace pie::cuda {

// By one thread. The threads of the block meet (__syncthreads) before they use the barrier.
__device__ inline void InitBarrier(uint64_t* barrier, uint32_t arrivals) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(SharedAddress(barrier)),
               "r"(arrivals)
               : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ inline void Arrive(uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(SharedAddress(barrier)) : "memory");
#endif
}

// Arrives, and makes the phase wait for this many bytes more. Before their copies begin.
__device__ inline void ArriveExpecting(uint64_t* barrier, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(SharedAddress(barrier)),
      "r"(bytes)
      : "memory");
#endif
}

// Waits until the phase of this parity has ended. A fresh barrier is in a phase of parity 0, and a
// wait for parity 1 returns at once.
__device__ inline void AwaitPhase(uint64_t* barrier, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n"
      ".reg .pred ended;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
      "@ended bra done;\n"
      "bra again;\n"
      "done:\n"
      "}\n" ::"r"(SharedAddress(barrier)),
      "r"(parity)
      : "memory");
#endif
}

// Copies bytes that follow one another. Addresses and count are multiples of 16.
__device__ inline void BulkCopy(void* to_shared, const void* from, uint32_t bytes,
                                uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(SharedAddress(to_shared)),
      "l"(from), "r"(bytes), "r"(SharedAddress(barrier))
      : "memory");
#endif
}

// Copies a box of a matrix (DescribeMatrix): 64 columns of some rows, each row 128 bytes in shared
// memory with its 16-byte chunks permuted as OperandAt describes (group_products.cuh). What is
// outside the matrix becomes zeros. `to_shared` is a multiple of 1,024. A box of words
// (DescribeWords) is not permuted, and its place is a multiple of 128.
__device__ inline void CopyBox(void* to_shared, const MatrixMap& matrix, uint32_t column,
                               uint32_t row, uint64_t* barrier) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(SharedAddress(to_shared)),
      "l"(&matrix), "r"(column), "r"(row), "r"(SharedAddress(barrier))
      : "memory");
#endif
}

}  // namespace pie::cuda
#endif
