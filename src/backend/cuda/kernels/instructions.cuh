// The instructions of a GPU that C++ cannot express, one function each. The emulator has its own
// versions (emulator/instructions.h), so kernels use these functions and no assembly.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace pie::cuda {
using bf16 = __nv_bfloat16;
}  // namespace pie::cuda

#ifdef PIE_CUDA_EMULATED
#include "backend/cuda/emulator/instructions.h"
#else

// Declares an array over the block's dynamic shared memory.
#define PIE_DYNAMIC_SHARED(type, name) extern __shared__ __align__(1024) type name[]

// Hopper's own instructions exist only in code for sm_90a.
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define PIE_HAS_WGMMA 1
#else
#define PIE_HAS_WGMMA 0
#endif

namespace pie::cuda {

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

// Asks for memory to be brought into the second-level cache. Bytes and address are multiples of 16.
__device__ inline void BringToCache(const void* from, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
#endif
}

// Brings a line of 128 bytes of constant memory into the first-level cache.
__device__ inline void BringNear(const void* from) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(from));
}

__device__ inline uint32_t SharedAddress(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Tells another block that it can read the words that this thread's warp wrote before. Flags begin
// as 0.
__device__ inline void Raise(uint32_t* flag) {
  asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory");
}
// Waits until another block has raised a flag.
__device__ inline void AwaitRaised(const uint32_t* flag) {
  uint32_t value = 0;
  while (value == 0) {
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  }
}

// Copies 16 bytes to shared memory, or writes zeros.
__device__ inline void CopyAsync(uint32_t to, const void* from, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(real ? 16 : 0));
}
__device__ inline void CommitCopies() {
  asm volatile("cp.async.commit_group;");
}
template <int kLeft>
__device__ void AwaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft));
}

__device__ inline void LoadMatrices(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ inline void LoadTransposed(uint32_t (&r)[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

__device__ inline float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// a × b + c for pairs of bfloat16, rounded once. Subnormal numbers count.
__device__ inline uint32_t MultiplyAddPairs(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

__device__ inline float HalfToFloat(uint16_t half) {
  float number;
  asm("cvt.f32.f16 %0, %1;" : "=f"(number) : "h"(half));
  return number;
}

// Two f16, rounded.
__device__ inline uint32_t PackHalves(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// a × b for pairs of f16. Subnormal numbers are not flushed to zero.
__device__ inline uint32_t MultiplyHalves(uint32_t a, uint32_t b) {
  uint32_t d;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(d) : "r"(a), "r"(b));
  return d;
}

#if __CUDA_ARCH__ >= 890
#define PIE_HAS_E4M3 1
// Two pairs of f16, of the e4m3 in bytes 0 and 1 and in bytes 2 and 3.
__device__ inline uint2 ConvertE4m3(uint32_t bytes) {
  uint2 pairs;
  asm("{\n"
      ".reg .b16 low, high;\n"
      "mov.b32 {low, high}, %2;\n"
      "cvt.rn.f16x2.e4m3x2 %0, low;\n"
      "cvt.rn.f16x2.e4m3x2 %1, high;\n"
      "}"
      : "=r"(pairs.x), "=r"(pairs.y)
      : "r"(bytes));
  return pairs;
}
#else
#define PIE_HAS_E4M3 0
#endif

// d += a · b for tiles of 16 × 16 and 16 × 8 numbers, in bfloat16 and in f16.
__device__ inline void Mma(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                           uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
__device__ inline void MmaHalves(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                 uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

}  // namespace pie::cuda
#endif
