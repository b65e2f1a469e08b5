#include "backend/cuda/emulator/emulator.h"

#include <ucontext.h>
#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <vector>

dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace pie::cuda::emulator {
namespace {

constexpr size_t kStackBytes = 256 * 1024;

enum class State : uint8_t { kRuns, kYields, kAtWarp, kAtGroup, kAtSome, kAtBlock, kReturned };

struct Copy {
  uint32_t to;
  const void* from;
  bool real;
};

struct BulkCopy {
  uint64_t* barrier;
  uint32_t bytes;
  std::function<void()> copy;
};

// The 8 bytes of a barrier.
struct Barrier {
  uint32_t parity : 1;
  uint32_t arrivals : 15;  // of each phase
  uint32_t missing : 16;   // in this phase
  int32_t bytes;           // that this phase still expects
};
static_assert(sizeof(Barrier) == sizeof(uint64_t));

struct Fiber {
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  ucontext_t start{};
  jmp_buf at{};
  State state = State::kReturned;
  bool started = false;
  unsigned exchange = 0;  // which of the two buffers is next
  std::vector<Copy> copies;
  std::deque<std::vector<Copy>> groups;
};

struct Warp {
  alignas(64) char values[2][32 * 64];
};

std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Warp> warps;
struct alignas(1024) Shared {
  char bytes[kSharedBytes];
};
std::vector<std::unique_ptr<Shared>> shared_memories;  // of the blocks that run together
char* shared = nullptr;                                // of the block that runs
unsigned now = 0;                                      // the fiber that runs
unsigned count = 0;                                    // threads of a block
unsigned together = 1;                                 // blocks that run together
unsigned some = 0;                                     // threads that SyncFirst waits for
std::vector<BulkCopy> bulk_copies;
uint64_t changes = 0;  // of barriers with phases
jmp_buf scheduler;
const std::function<void()>* body = nullptr;

[[noreturn]] void Die(const char* what) {
  std::fprintf(stderr, "CUDA emulator: %s\n", what);
  std::abort();
}

void Main() {
  (*body)();
  fibers[now]->state = State::kReturned;
  _longjmp(scheduler, 1);
}

// Prepare and Resume are not inlined: a function that calls getcontext or setjmp may lose its
// variables when that returns again.
[[gnu::noinline]] void Prepare(Fiber& fiber) {
  fiber.started = false;
  fiber.exchange = 0;
  fiber.copies.clear();
  fiber.groups.clear();
  getcontext(&fiber.start);
  fiber.start.uc_stack = {.ss_sp = fiber.stack.get(), .ss_flags = 0, .ss_size = kStackBytes};
  fiber.start.uc_link = nullptr;
  makecontext(&fiber.start, Main, 0);
}

[[gnu::noinline]] void Resume(unsigned index) {
  now = index;
  const unsigned thread = index % count;
  threadIdx = {thread % blockDim.x, thread / blockDim.x, 0};
  if (together > 1) blockIdx = {index / count, 0, 0};
  shared = shared_memories[index / count]->bytes;
  Fiber& fiber = *fibers[index];
  fiber.state = State::kRuns;
  if (_setjmp(scheduler) != 0) return;
  if (fiber.started) _longjmp(fiber.at, 1);
  fiber.started = true;
  setcontext(&fiber.start);
}

void Wait(State state) {
  Fiber& fiber = *fibers[now];
  fiber.state = state;
  if (_setjmp(fiber.at) == 0) _longjmp(scheduler, 1);
}

// True if every thread of [begin, end) waits there or has returned, and one waits.
bool AllAt(State state, unsigned begin, unsigned end) {
  bool any = false;
  for (unsigned i = begin; i < end; ++i) {
    if (fibers[i]->state == State::kReturned) continue;
    if (fibers[i]->state != state) return false;
    any = true;
  }
  return any;
}

// Runs the threads of a range that wait at a barrier which all of them have reached.
bool Release(State state, unsigned begin, unsigned end) {
  if (!AllAt(state, begin, end)) return false;
  for (unsigned i = begin; i < end; ++i) {
    if (fibers[i]->state == state) Resume(i);
  }
  return true;
}

// Runs the threads that wait for each other without a barrier that the scheduler knows.
bool ResumeYielding() {
  bool any = false;
  for (unsigned i = 0; i < count * together; ++i) {
    if (fibers[i]->state != State::kYields) continue;
    Resume(i);
    any = any || fibers[i]->state != State::kYields;
  }
  return any;
}

// Runs the threads of a block's barriers; `begin` is its first fiber. Returns false if all wait.
bool RunBarriers(unsigned begin) {
  const unsigned end = begin + count;
  bool moved = false;
  for (unsigned warp = begin; warp < end; warp += 32) {
    while (Release(State::kAtWarp, warp, std::min(warp + 32, end))) moved = true;
  }
  for (unsigned group = begin; group < end; group += 128) {
    moved = Release(State::kAtGroup, group, std::min(group + 128, end)) || moved;
  }
  return (some > 0 && Release(State::kAtSome, begin, begin + some)) || moved;
}

// Runs the blocks that are together from their beginning to their end.
void RunBlocks() {
  const unsigned all = count * together;
  bulk_copies.clear();
  for (unsigned i = 0; i < all; ++i) Prepare(*fibers[i]);
  for (unsigned i = 0; i < all; ++i) Resume(i);
  for (;;) {
    bool moved = false;
    for (unsigned begin = 0; begin < all; begin += count) moved = RunBarriers(begin) || moved;
    if (moved) continue;
    const uint64_t before = changes;
    if (ResumeYielding() || changes != before) continue;
    for (unsigned begin = 0; begin < all; begin += count) {
      moved = Release(State::kAtBlock, begin, begin + count) || moved;
    }
    if (moved) continue;
    for (unsigned i = 0; i < all; ++i) {
      if (fibers[i]->state == State::kYields) Die("a thread waits for an event that never comes");
      if (fibers[i]->state != State::kReturned) Die("threads wait at different barriers");
    }
    if (!bulk_copies.empty()) Die("a block ends before its copies have come");
    return;
  }
}

void Begin(dim3 grid, dim3 block, size_t shared_bytes, unsigned blocks,
           const std::function<void()>& thread) {
  if (shared_bytes > kSharedBytes) Die("a kernel wants more shared memory than a block has");
  count = block.x * block.y * block.z;
  if (count > 1024) Die("a block has more than 1,024 threads");
  together = blocks;
  some = 0;
  while (fibers.size() < count * together) fibers.push_back(std::make_unique<Fiber>());
  while (shared_memories.size() < together) shared_memories.push_back(std::make_unique<Shared>());
  warps.resize((count + 31) / 32 * together);
  body = &thread;
  gridDim = grid;
  blockDim = block;
}

// NaN, so that nothing relies on old numbers.
void ForgetShared(size_t shared_bytes) {
  for (unsigned i = 0; i < together; ++i)
    std::memset(shared_memories[i]->bytes, 0xFF, shared_bytes);
}

}  // namespace

void RunGrid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread) {
  Begin(grid, block, shared_bytes, 1, thread);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        ForgetShared(shared_bytes);
        RunBlocks();
      }
    }
  }
}

void RunTogether(unsigned blocks, dim3 block, size_t shared_bytes,
                 const std::function<void()>& thread) {
  Begin(dim3(blocks), block, shared_bytes, blocks, thread);
  if (count % 32 != 0) Die("blocks that run together have whole warps");
  ForgetShared(shared_bytes);
  RunBlocks();
}

char* SharedMemory() {
  return shared;
}

void SyncFirst(unsigned threads) {
  some = threads;
  Wait(State::kAtSome);
}
void SyncBlock() {
  Wait(State::kAtBlock);
}
void SyncWarp() {
  Wait(State::kAtWarp);
}
void SyncWarpGroup() {
  Wait(State::kAtGroup);
}

unsigned Lane() {
  return now % 32;
}

const void* ExchangeBytes(const void* value, size_t bytes) {
  char* const values = warps[now / 32].values[fibers[now]->exchange++ % 2];
  std::memcpy(values + size_t{Lane()} * 64, value, bytes);
  SyncWarp();
  return values;
}

void CopyLater(uint32_t to, const void* from, bool real) {
  fibers[now]->copies.push_back({to, from, real});
}

void CommitLater() {
  Fiber& fiber = *fibers[now];
  fiber.groups.push_back(std::move(fiber.copies));
  fiber.copies.clear();
}

void Yield() {
  Wait(State::kYields);
}

namespace {

template <class Change>
void ChangeBarrier(uint64_t* barrier, Change&& change) {
  Barrier of;
  std::memcpy(&of, barrier, sizeof of);
  change(of);
  if (of.missing == 0 && of.bytes == 0) {
    of.parity ^= 1U;
    of.missing = of.arrivals;
  }
  std::memcpy(barrier, &of, sizeof of);
  ++changes;
}

}  // namespace

void InitBarrier(uint64_t* barrier, uint32_t arrivals) {
  const Barrier of{.parity = 0, .arrivals = arrivals, .missing = arrivals, .bytes = 0};
  std::memcpy(barrier, &of, sizeof of);
}

void Arrive(uint64_t* barrier, uint32_t expected_bytes) {
  ChangeBarrier(barrier, [&](Barrier& of) {
    if (of.missing == 0) Die("too many threads arrive at a barrier");
    --of.missing;
    of.bytes += static_cast<int32_t>(expected_bytes);
  });
}

bool PhaseHasEnded(uint64_t* barrier, uint32_t parity) {
  const auto ended = [&] {
    Barrier of;
    std::memcpy(&of, barrier, sizeof of);
    return of.parity != parity;
  };
  for (size_t i = 0; i < bulk_copies.size() && !ended();) {
    if (bulk_copies[i].barrier != barrier) {
      ++i;
      continue;
    }
    const BulkCopy copy = std::move(bulk_copies[i]);
    bulk_copies.erase(bulk_copies.begin() + static_cast<ptrdiff_t>(i));
    copy.copy();
    ChangeBarrier(barrier, [&](Barrier& of) { of.bytes -= static_cast<int32_t>(copy.bytes); });
  }
  return ended();
}

void ArriveLater(uint64_t* barrier, uint32_t bytes, std::function<void()> copy) {
  bulk_copies.push_back({barrier, bytes, std::move(copy)});
}

void CopyNow(unsigned groups_left) {
  auto& groups = fibers[now]->groups;
  for (; groups.size() > groups_left; groups.pop_front()) {
    for (const Copy& copy : groups.front()) {
      if (copy.to + 16 > kSharedBytes) Die("a copy goes beyond the shared memory");
      if (copy.real) {
        std::memcpy(shared + copy.to, copy.from, 16);
      } else {
        std::memset(shared + copy.to, 0, 16);
      }
    }
  }
}

}  // namespace pie::cuda::emulator
