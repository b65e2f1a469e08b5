#include "backend/cuda/kernels/runtime.h"

#include <cuda.h>

#include <cstring>

#include "backend/cuda/kernels/launch.cuh"

namespace pie::cuda {

bool overlapping_launches = false;
bool has_group_products = false;
int processors = 1;

namespace {

std::string Version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

std::string Explain(cudaError_t status) {
  int driver = 0;
  int runtime = 0;
  if (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
      cudaRuntimeGetVersion(&runtime) == cudaSuccess) {
    if (driver == 0) return "no NVIDIA driver is installed";
    return "the NVIDIA driver is too old: it supports CUDA " + Version(driver) +
           ", and this build needs " + Version(runtime);
  }
  return cudaGetErrorString(status);
}

}  // namespace

std::vector<DeviceInfo> ListDevices(std::string* why) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    if (why != nullptr) *why = Explain(status);
    return {};
  }
  std::vector<DeviceInfo> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) continue;
    devices.push_back({.name = properties.name,
                       .number = i,
                       .major = properties.major,
                       .minor = properties.minor,
                       .processors = properties.multiProcessorCount,
                       .memory_bytes = properties.totalGlobalMem});
  }
  if (devices.empty() && why != nullptr) *why = "the driver lists no device";
  return devices;
}

std::string OpenDevice(int number) {
  const cudaError_t status = cudaSetDevice(number);
  if (status != cudaSuccess) {
    cudaGetLastError();
    return cudaGetErrorString(status);
  }
  int major = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, number);
  overlapping_launches = major >= 9;
  has_group_products = major == 9;
  cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, number);
  return TakeError();
}

size_t FreeMemory() {
  size_t free = 0;
  size_t total = 0;
  cudaMemGetInfo(&free, &total);
  return free;
}

std::string TakeError() {
  const cudaError_t status = cudaGetLastError();
  return status == cudaSuccess ? "" : cudaGetErrorString(status);
}

void* Allocate(size_t bytes) {
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
  cudaGetLastError();
  return nullptr;
}

void Free(void* memory) {
  cudaFree(memory);
}

void* AllocatePinned(size_t bytes) {
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) == cudaSuccess) return memory;
  cudaGetLastError();
  return nullptr;
}

void FreePinned(void* memory) {
  cudaFreeHost(memory);
}

Stream MakeStream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return stream;
}

Stream MakeCopyStream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
  return stream;
}

void DestroyStream(Stream stream) {
  cudaStreamDestroy(stream);
}

void Synchronize(Stream stream) {
  cudaStreamSynchronize(stream);
}

bool IsDone(Stream stream) {
  const cudaError_t status = cudaStreamQuery(stream);
  if (status == cudaErrorNotReady) cudaGetLastError();  // it is no error
  return status != cudaErrorNotReady;
}

void CopyIn(void* device, const void* host, size_t bytes, Stream stream) {
  if (bytes > 0) cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream);
}

void CopyOut(void* host, const void* device, size_t bytes, Stream stream) {
  if (bytes > 0) cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream);
}

void CopyWithin(void* to, const void* from, size_t bytes, Stream stream) {
  if (bytes > 0) cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

void Fill(void* device, int byte, size_t bytes, Stream stream) {
  if (bytes > 0) cudaMemsetAsync(device, byte, bytes, stream);
}

namespace {

struct Box {
  uint32_t rows, columns;
  CUtensorMapDataType type;
  uint32_t number_bytes;
  CUtensorMapSwizzle order;
};

bool Describe(const void* data, uint64_t rows, uint64_t columns, const Box& box, MatrixMap* map) {
  constexpr uint64_t kMost = uint64_t{1} << 31;  // coordinates have a sign
  if (!has_group_products || rows >= kMost || columns >= kMost) return false;
  using Encode =
      CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*,
                   const cuuint64_t*, const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave,
                   CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill);
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found{};
  constexpr unsigned kSince = 12'000;
  if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, kSince, cudaEnableDefault,
                                       &found) != cudaSuccess ||
      found != cudaDriverEntryPointSuccess || encode == nullptr) {
    cudaGetLastError();
    return false;
  }
  static_assert(sizeof(MatrixMap) == sizeof(CUtensorMap));
  CUtensorMap encoded{};
  const cuuint64_t size[] = {columns, rows};
  const cuuint64_t row_bytes[] = {columns * box.number_bytes};
  const cuuint32_t box_size[] = {box.columns, box.rows};
  const cuuint32_t steps[] = {1, 1};
  const CUresult status = reinterpret_cast<Encode>(encode)(
      &encoded, box.type, 2, const_cast<void*>(data), size, row_bytes, box_size, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, box.order, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) return false;
  std::memcpy(map->words, &encoded, sizeof map->words);
  return true;
}

}  // namespace

bool DescribeMatrix(const void* data, uint64_t rows, uint32_t columns, uint32_t box_rows,
                    MatrixMap* map) {
  const Box box{box_rows, 64, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, CU_TENSOR_MAP_SWIZZLE_128B};
  return Describe(data, rows, columns, box, map);
}

bool DescribeWords(const void* data, uint64_t rows, uint64_t columns, uint32_t box_rows,
                   uint32_t box_columns, MatrixMap* map) {
  const Box box{box_rows, box_columns, CU_TENSOR_MAP_DATA_TYPE_UINT64, 8,
                CU_TENSOR_MAP_SWIZZLE_NONE};
  return Describe(data, rows, columns, box, map);
}

void BeginCapture(Stream stream) {
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal);
}

Graph EndCapture(Stream stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  if (cudaStreamEndCapture(stream, &graph) != cudaSuccess || graph == nullptr) return nullptr;
  cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  return executable;
}

void RunGraph(Graph graph, Stream stream) {
  cudaGraphLaunch(graph, stream);
}

void DestroyGraph(Graph graph) {
  cudaGraphExecDestroy(graph);
}

Event MakeEvent() {
  cudaEvent_t event = nullptr;
  cudaEventCreate(&event);
  return event;
}

void DestroyEvent(Event event) {
  cudaEventDestroy(event);
}

void RecordEvent(Event event, Stream stream) {
  cudaEventRecord(event, stream);
}

void WaitFor(Event event, Stream stream) {
  cudaStreamWaitEvent(stream, event, 0);
}

bool IsDone(Event event) {
  const cudaError_t status = cudaEventQuery(event);
  if (status == cudaErrorNotReady) cudaGetLastError();  // it is no error
  return status != cudaErrorNotReady;
}

void Synchronize(Event event) {
  cudaEventSynchronize(event);
}

float MillisecondsBetween(Event begin, Event end) {
  float milliseconds = 0;
  cudaEventSynchronize(end);
  cudaEventElapsedTime(&milliseconds, begin, end);
  return milliseconds;
}

}  // namespace pie::cuda
