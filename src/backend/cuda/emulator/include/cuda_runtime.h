// The part of CUDA's header of this name that the kernels use, for the emulator.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "backend/cuda/emulator/emulator.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __align__(bytes) alignas(bytes)
#define __launch_bounds__(...)
#define __grid_constant__

struct float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct uint2 {
  uint32_t x, y;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline float2 make_float2(float x, float y) {
  return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
inline uint2 make_uint2(uint32_t x, uint32_t y) {
  return {x, y};
}
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  return {x, y, z, w};
}

using std::max;
using std::min;
inline uint32_t min(int a, uint32_t b) {
  return min(static_cast<uint32_t>(a), b);
}

inline void __syncthreads() {
  pie::cuda::emulator::SyncBlock();
}
inline void __syncwarp() {
  pie::cuda::emulator::SyncWarp();
}
inline void __threadfence() {}
inline void __threadfence_system() {}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}

template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return pie::cuda::emulator::Exchange(value)[static_cast<unsigned>(lane) % 32];
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return pie::cuda::emulator::Exchange(
      value)[pie::cuda::emulator::Lane() ^ static_cast<unsigned>(mask)];
}
template <class T>
T __shfl_up_sync(unsigned, T value, int delta) {
  const unsigned lane = pie::cuda::emulator::Lane();
  const auto values = pie::cuda::emulator::Exchange(value);
  return lane < static_cast<unsigned>(delta) ? value : values[lane - static_cast<unsigned>(delta)];
}
inline uint32_t __ballot_sync(unsigned, bool value) {
  const auto values = pie::cuda::emulator::Exchange(value);
  uint32_t bits = 0;
  for (unsigned i = 0; i < 32; ++i) bits |= (values[i] ? 1U : 0U) << i;
  return bits;
}
inline bool __any_sync(unsigned mask, bool value) {
  return __ballot_sync(mask, value) != 0;
}

inline int __clz(uint32_t x) {
  return std::countl_zero(x);
}
inline int __ffs(uint32_t x) {
  return x == 0 ? 0 : std::countr_zero(x) + 1;
}
inline uint32_t __float_as_uint(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline uint32_t __byte_perm(uint32_t low, uint32_t high, uint32_t select) {
  const uint64_t bytes = uint64_t{high} << 32 | low;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) {
    out |= static_cast<uint32_t>(bytes >> (select >> (4 * i) & 7U) * 8 & 0xFFU) << (8 * i);
  }
  return out;
}
inline float __uint_as_float(uint32_t x) {
  return std::bit_cast<float>(x);
}
inline unsigned long long __float2ull_rn(float x) {
  return static_cast<unsigned long long>(std::llrintf(x));
}
inline float __expf(float x) {
  return std::exp(x);
}
inline float __fdividef(float x, float y) {
  return x / y;
}
inline float rsqrtf(float x) {
  return 1 / std::sqrt(x);
}
template <class T>
T atomicAdd(T* to, T value) {
  const T old = *to;
  *to += value;
  return old;
}

// The runtime.
using cudaError_t = int;
inline constexpr cudaError_t cudaSuccess = 0;
inline constexpr cudaError_t cudaErrorMemoryAllocation = 2;
inline constexpr cudaError_t cudaErrorInvalidValue = 1;
inline constexpr cudaError_t cudaErrorInsufficientDriver = 35;
inline constexpr cudaError_t cudaErrorNotReady = 600;
inline constexpr cudaError_t cudaErrorLaunchFailure = 719;
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor, cudaDevAttrMultiProcessorCount };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
enum { cudaEnableDefault };
enum { cudaHostAllocDefault, cudaStreamNonBlocking, cudaStreamCaptureModeThreadLocal };
struct cudaDeviceProp {
  char name[32];
  int major, minor, multiProcessorCount;
  size_t totalGlobalMem;
};

cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* found);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end);
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel*, cudaFuncAttribute, int) {
  return cudaSuccess;
}

namespace pie::cuda::emulator {
// Runs a grid, or adds it to the graph that is being recorded.
void Submit(dim3 grid, dim3 block, size_t shared_bytes, std::function<void()> thread);
// The same for blocks that run together.
void SubmitTogether(unsigned blocks, dim3 block, size_t shared_bytes, std::function<void()> thread);
}  // namespace pie::cuda::emulator
