// The emulator: runs CUDA kernels on the processor, so that every machine can test them. Threads of
// a block are fibers that take turns; blocks run one after the other; a launch returns when the
// grid is done. Kernels are the same source files, compiled as C++ with this folder's stand-ins for
// CUDA's headers (include/).
//
// It shows wrong arithmetic, wrong addresses within a tile, copies that are not waited for, and
// threads that do not meet at a barrier. It does not show races, and says nothing about speed. One
// thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <type_traits>

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  // NOLINTNEXTLINE: a number is a dim3, as in CUDA
  constexpr dim3(unsigned wide = 1, unsigned high = 1, unsigned deep = 1)
      : x(wide), y(high), z(deep) {}
};

// Of the fiber that runs.
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace pie::cuda::emulator {

inline constexpr size_t kSharedBytes = 227 * 1024;  // of a block, as on Hopper

// Runs `thread` once for each thread of each block.
void RunGrid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread);

// The same for blocks that wait for one another: all of them run at a time. They have only dynamic
// shared memory.
void RunTogether(unsigned blocks, dim3 block, size_t shared_bytes,
                 const std::function<void()>& thread);

char* SharedMemory();  // of the block, aligned to 1,024 bytes

// Barriers of the threads that have not returned.
void SyncBlock();
void SyncWarp();
void SyncWarpGroup();              // four warps
void SyncFirst(unsigned threads);  // of the block

unsigned Lane();

// Shows `value` to the other threads of the warp, and returns all values by lane. They are valid
// until the next but one call.
const void* ExchangeBytes(const void* value, size_t bytes);
template <class T>
struct Exchanged {
  const char* values;
  T operator[](unsigned lane) const {
    T value;
    std::memcpy(&value, values + lane * 64, sizeof(T));
    return value;
  }
};
template <class T>
Exchanged<T> Exchange(const T& value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 64);
  return {static_cast<const char*>(ExchangeBytes(&value, sizeof(T)))};
}

// Copies to shared memory that happen when they are waited for, as late as they may.
void CopyLater(uint32_t to, const void* from, bool real);
void CommitLater();
void CopyNow(unsigned groups_left);

// Lets the other threads of the block run. A thread that waits for something calls this in a loop.
void Yield();

// Barriers that count arrivals and bytes (kernels/bulk_copies.cuh).
void InitBarrier(uint64_t* barrier, uint32_t arrivals);
void Arrive(uint64_t* barrier, uint32_t expected_bytes);
// True if the phase of this parity has ended. The work that it may wait for happens first.
bool PhaseHasEnded(uint64_t* barrier, uint32_t parity);
// Calls `copy` when a thread waits for the barrier, and counts its bytes there.
void ArriveLater(uint64_t* barrier, uint32_t bytes, std::function<void()> copy);

// For tests. The next launch fails, and as on a GPU, everything fails from then on.
void FailNextLaunch();
// The next launch never ends. A later wait for the device would never return; it ends the program
// instead.
void HangNextLaunch();
// The memory of the device, instead of the usual 4 GiB.
void SetMemory(size_t bytes);
// The most that can be pinned at a time.
void SetPinned(size_t bytes);
// The driver's version, 1000 × major + 10 × minor. One below 13,000 is too old; 0: there is none.
void SetDriver(int version);
// Takes all of that back.
void Repair();

}  // namespace pie::cuda::emulator
