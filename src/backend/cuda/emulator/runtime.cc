// CUDA's runtime, for the emulator: everything happens in the call, and graphs are lists of calls.
//
// Streams with a priority are those of copies. Their work happens as late as it may: when another
// stream or the host waits for it. So a wait that is missing shows.
#include <cuda.h>
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

struct CUgraph_st {
  std::vector<std::function<void()>> calls;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> calls;
};
struct CUstream_st {
  std::deque<std::function<void()>> work;
  uint64_t done = 0;  // work that is no longer in the queue
};
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
  cudaStream_t stream = nullptr;  // one of copies, or null
  uint64_t after = 0;             // the work of it that comes before the event
  int queries = 0;
};

namespace {

constexpr size_t kUsualMemory = size_t{4} << 30;
size_t memory_bytes = kUsualMemory;
size_t used_bytes = 0;
size_t pinned_limit = SIZE_MAX;
cudaError_t last_error = cudaSuccess;
bool lost = false;  // a kernel failed: as on a GPU, nothing works from then on
bool fail_next = false;
bool hang_next = false;
bool hangs = false;  // a kernel never ends
constexpr int kVersion = 13'000;
int driver_version = kVersion;
CUgraph_st* recorded = nullptr;
std::unordered_map<void*, size_t> blocks;
CUstream_st usual;                // of kernels: everything happens in the call
std::recursive_mutex late_mutex;  // of the streams of copies

bool IsLate(cudaStream_t stream) {
  return stream != &usual;
}

// Does the work of a stream of copies up to here.
void CatchUp(cudaStream_t stream, uint64_t until) {
  const std::lock_guard lock(late_mutex);
  while (stream->done < until && !stream->work.empty()) {
    const std::function<void()> work = std::move(stream->work.front());
    stream->work.pop_front();
    ++stream->done;
    work();
  }
}

cudaError_t Keep(cudaError_t error) {
  if (error != cudaSuccess && last_error == cudaSuccess) last_error = error;
  return error;
}

cudaError_t Do(std::function<void()> call) {
  if (recorded != nullptr) {
    recorded->calls.push_back(std::move(call));
    return cudaSuccess;
  }
  if (lost) return Keep(cudaErrorLaunchFailure);
  if (hangs) return cudaSuccess;  // it is queued, and never runs
  call();
  return cudaSuccess;
}

// cuTensorMapEncodeTiled, for matrices of bfloat16 with permuted boxes of 64 columns, and of words
// of 8 bytes with boxes as they are.
CUresult DescribeMatrix(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t dimensions,
                        void* data, const cuuint64_t* size, const cuuint64_t* strides,
                        const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                        CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                        CUtensorMapFloatOOBfill) {
  const bool fits = dimensions == 2 && reinterpret_cast<uintptr_t>(data) % 16 == 0 &&
                    strides[0] % 16 == 0 && box[0] <= 256 && box[1] >= 1 && box[1] <= 256;
  const bool permuted = swizzle == CU_TENSOR_MAP_SWIZZLE_128B;
  const cuuint32_t bytes = type == CU_TENSOR_MAP_DATA_TYPE_UINT64 ? 8 : 2;
  if (!fits || (permuted && box[0] * bytes != 128) || box[0] * bytes % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *map = {.data = static_cast<const char*>(data),
          .rows = size[1],
          .columns = size[0],
          .row_bytes = strides[0],
          .box_rows = box[1],
          .box_columns = box[0],
          .number_bytes = bytes,
          .is_permuted = permuted ? 1U : 0U,
          .unused = {}};
  return CUDA_SUCCESS;
}

void ExpectAnAnswer(const char* call) {
  if (!hangs) return;
  std::fprintf(stderr, "%s would never return: a kernel hangs\n", call);
  std::abort();
}

}  // namespace

namespace pie::cuda::emulator {

void FailNextLaunch() {
  fail_next = true;
}

void HangNextLaunch() {
  hang_next = true;
}

void SetMemory(size_t bytes) {
  memory_bytes = bytes;
}

void SetPinned(size_t bytes) {
  pinned_limit = bytes;
}

void SetDriver(int version) {
  driver_version = version;
}

void Repair() {
  memory_bytes = kUsualMemory;
  pinned_limit = SIZE_MAX;
  driver_version = kVersion;
  lost = fail_next = hang_next = hangs = false;
  last_error = cudaSuccess;
}

namespace {
// Runs a launch, or adds it to the graph that is being recorded.
void SubmitLaunch(std::function<void()> launch) {
  Do([launch = std::move(launch)] {
    if (fail_next || lost) {
      fail_next = false;
      lost = true;
      Keep(cudaErrorLaunchFailure);
      return;
    }
    if (hang_next || hangs) {
      hang_next = false;
      hangs = true;
      return;
    }
    launch();
  });
}
}  // namespace

void Submit(dim3 grid, dim3 block, size_t shared_bytes, std::function<void()> thread) {
  SubmitLaunch([=, thread = std::move(thread)] { RunGrid(grid, block, shared_bytes, thread); });
}

void SubmitTogether(unsigned blocks, dim3 block, size_t shared_bytes,
                    std::function<void()> thread) {
  SubmitLaunch(
      [=, thread = std::move(thread)] { RunTogether(blocks, block, shared_bytes, thread); });
}

}  // namespace pie::cuda::emulator

cudaError_t cudaGetLastError() {
  const cudaError_t error = lost ? cudaErrorLaunchFailure : last_error;
  last_error = cudaSuccess;
  return error;
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? "unspecified launch failure" : "emulated error";
}

cudaError_t cudaGetDeviceCount(int* count) {
  if (driver_version < kVersion) return Keep(cudaErrorInsufficientDriver);
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {.name = "emulated GPU",
                 .major = 9,
                 .minor = 0,
                 .multiProcessorCount = 4,
                 .totalGlobalMem = memory_bytes};
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device == 0 ? cudaSuccess : Keep(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrComputeCapabilityMajor ? 9 : 4;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = kVersion;
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* found) {
  if (std::strcmp(name, "cuTensorMapEncodeTiled") != 0) return Keep(cudaErrorInvalidValue);
  *function = reinterpret_cast<void*>(DescribeMatrix);
  *found = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = memory_bytes > used_bytes ? memory_bytes - used_bytes : 0;
  *total = memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  if (used_bytes + bytes > memory_bytes) return Keep(cudaErrorMemoryAllocation);
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*memory == nullptr) return Keep(cudaErrorMemoryAllocation);
  blocks[*memory] = bytes;
  used_bytes += bytes;
  return cudaSuccess;
}

cudaError_t cudaFree(void* memory) {
  ExpectAnAnswer("cudaFree");
  if (memory == nullptr) return cudaSuccess;
  used_bytes -= blocks[memory];
  blocks.erase(memory);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  if (bytes > pinned_limit) return Keep(cudaErrorMemoryAllocation);
  *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *memory == nullptr ? Keep(cudaErrorMemoryAllocation) : cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  if (memory != nullptr) ExpectAnAnswer("cudaFreeHost");
  std::free(memory);
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = &usual;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new CUstream_st;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (IsLate(stream)) delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (event->stream == nullptr) return cudaSuccess;
  if (!IsLate(stream)) {
    CatchUp(event->stream, event->after);
    return cudaSuccess;
  }
  const std::lock_guard lock(late_mutex);
  stream->work.push_back([from = event->stream, after = event->after] { CatchUp(from, after); });
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  ExpectAnAnswer("cudaStreamSynchronize");
  if (IsLate(stream)) CatchUp(stream, UINT64_MAX);
  return lost ? Keep(cudaErrorLaunchFailure) : cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t) {
  return hangs ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  if (IsLate(stream)) {
    if (lost) return Keep(cudaErrorLaunchFailure);
    const std::lock_guard lock(late_mutex);
    stream->work.push_back([=] {
      if (!lost && !hangs) std::memcpy(to, from, bytes);
    });
    return cudaSuccess;
  }
  return Do([=] { std::memcpy(to, from, bytes); });
}

cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t) {
  return Do([=] { std::memset(to, byte, bytes); });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t, int) {
  recorded = new CUgraph_st;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = recorded;
  recorded = nullptr;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned) {
  *executable = new CUgraphExec_st{graph->calls};
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  for (const auto& call : graph->calls) call();
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new CUevent_st;
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->time = std::chrono::steady_clock::now();
  if (!IsLate(stream)) return cudaSuccess;
  const std::lock_guard lock(late_mutex);
  event->stream = stream;
  event->after = stream->done + stream->work.size();
  event->queries = 0;
  return cudaSuccess;
}

// A copy completes when a thread has asked for it several times.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(late_mutex);
  if (lost) return cudaErrorLaunchFailure;
  if (hangs) return cudaErrorNotReady;
  if (event->stream == nullptr) return cudaSuccess;
  if (event->stream->done < event->after && ++event->queries < 4) return cudaErrorNotReady;
  CatchUp(event->stream, event->after);
  return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->stream != nullptr) CatchUp(event->stream, event->after);
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = std::chrono::duration<float, std::milli>(end->time - begin->time).count();
  return cudaSuccess;
}
