// The CUDA runtime as the backend uses it: devices, memory, streams and graphs, without CUDA's
// headers. The driver is loaded when the first of these functions is called.
//
// One thread at a time, except for functions that say otherwise. Errors of launches and copies are
// kept by the device: TakeError returns the first one since the last call. A failed allocation
// returns null and is not kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

struct CUstream_st;
struct CUgraphExec_st;
struct CUevent_st;

namespace pie::cuda {

using Stream = CUstream_st*;
using Graph = CUgraphExec_st*;
using Event = CUevent_st*;

struct DeviceInfo {
  std::string name;
  int number = 0;
  int major = 0;  // its compute capability
  int minor = 0;
  int processors = 0;  // streaming multiprocessors
  size_t memory_bytes = 0;
};

// Lists the devices of this machine. If there is none, `why` says what the driver answered.
std::vector<DeviceInfo> ListDevices(std::string* why);

// Makes a device the current one of this thread. Returns an error text, or "".
std::string OpenDevice(int number);
size_t FreeMemory();  // bytes of the current device

// Describes the first error since the last call, or returns "".
std::string TakeError();

void* Allocate(size_t bytes);
void Free(void* memory);
void* AllocatePinned(size_t bytes);  // host memory that the device reads and writes directly
void FreePinned(void* memory);

Stream MakeStream();
Stream MakeCopyStream();  // for copies beside the work of other streams
void DestroyStream(Stream stream);
void Synchronize(Stream stream);
bool IsDone(Stream stream);  // false while work is left; errors count as done

void CopyIn(void* device, const void* host, size_t bytes, Stream stream);
void CopyOut(void* host, const void* device, size_t bytes, Stream stream);
void CopyWithin(void* to, const void* from, size_t bytes, Stream stream);
void Fill(void* device, int byte, size_t bytes, Stream stream);

// Describes a matrix of bfloat16 in the device's memory to the engine that copies boxes of it, of
// 64 columns and `box_rows` rows (bulk_copies.cuh). `data` and the bytes of a row are multiples
// of 16. Returns false if the device has no such engine, or the matrix has too many rows.
struct alignas(64) MatrixMap {
  uint64_t words[16] = {};
};
bool DescribeMatrix(const void* data, uint64_t rows, uint32_t columns, uint32_t box_rows,
                    MatrixMap* map);
// The same for a matrix of words of 8 bytes, and boxes with at most 256 of them in a row, which
// follow one another in shared memory.
bool DescribeWords(const void* data, uint64_t rows, uint64_t columns, uint32_t box_rows,
                   uint32_t box_columns, MatrixMap* map);

// Records the launches on the stream instead of running them.
void BeginCapture(Stream stream);
Graph EndCapture(Stream stream);  // null on failure
void RunGraph(Graph graph, Stream stream);
void DestroyGraph(Graph graph);

Event MakeEvent();
void DestroyEvent(Event event);
void RecordEvent(Event event, Stream stream);
void WaitFor(Event event, Stream stream);  // all launches on the stream from now on wait
// False while the work before the event is under way; errors count as done. Any thread may ask.
bool IsDone(Event event);
void Synchronize(Event event);
float MillisecondsBetween(Event begin, Event end);  // waits for `end`

// Launches that are recorded once, to be timed.
class TimedGraph {
 public:
  template <class Launch>
  TimedGraph(const Launch& launch, Stream stream) : stream_(stream) {
    BeginCapture(stream);
    launch();
    graph_ = EndCapture(stream);
    if (graph_ != nullptr) RunGraph(graph_, stream_);  // the first run is slower
  }
  ~TimedGraph() {
    if (graph_ != nullptr) DestroyGraph(graph_);
    DestroyEvent(begin_);
    DestroyEvent(end_);
  }
  TimedGraph(const TimedGraph&) = delete;
  TimedGraph& operator=(const TimedGraph&) = delete;

  bool recorded() const { return graph_ != nullptr; }
  // Milliseconds of one run.
  float Run() {
    RecordEvent(begin_, stream_);
    RunGraph(graph_, stream_);
    RecordEvent(end_, stream_);
    return MillisecondsBetween(begin_, end_);
  }

 private:
  const Stream stream_;
  const Event begin_ = MakeEvent();
  const Event end_ = MakeEvent();
  Graph graph_ = nullptr;
};

}  // namespace pie::cuda
