#include "backend/cuda/emulator/emulator.h"

#include <ucontext.h>
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

enum class State : uint8_t { kRuns, kYields, kAtWarp, kAtGroup, kAtBlock, kReturned };

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
  std::unique_ptr<char[]> stack = std::make_unique<char[]>(kStackBytes);
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
alignas(1024) char shared[kSharedBytes];
unsigned now = 0;  // the fiber that runs
unsigned count = 0;
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
  threadIdx = {index % blockDim.x, index / blockDim.x, 0};
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
  for (unsigned i = begin; i < end && i < count; ++i) {
    if (fibers[i]->state == State::kReturned) continue;
    if (fibers[i]->state != state) return false;
    any = true;
  }
  return any;
}

// Runs the threads of a range that wait at a barrier which all of them have reached.
bool Release(State state, unsigned begin, unsigned end) {
  if (!AllAt(state, begin, end)) return false;
  for (unsigned i = begin; i < end && i < count; ++i) {
    if (fibers[i]->state == state) Resume(i);
  }
  return true;
}

// Runs the threads that wait for each other without a barrier that the scheduler knows.
bool ResumeYielding() {
  bool any = false;
  for (unsigned i = 0; i < count; ++i) {
    if (fibers[i]->state != State::kYields) continue;
    Resume(i);
    any = any || fibers[i]->state != State::kYields;
  }
  return any;
}

void RunBlock() {
  bulk_copies.clear();
  for (unsigned i = 0; i < count; ++i) Prepare(*fibers[i]);
  for (unsigned i = 0; i < count; ++i) Resume(i);
  for (;;) {
    bool moved = false;
    for (unsigned warp = 0; warp < count; warp += 32) {
      while (Release(State::kAtWarp, warp, warp + 32)) moved = true;
    }
    for (unsigned group = 0; group < count; group += 128) {
      moved = Release(State::kAtGroup, group, group + 128) || moved;
    }
    if (moved) continue;
    const uint64_t before = changes;
    if (ResumeYielding() || changes != before) continue;
    if (Release(State::kAtBlock, 0, count)) continue;
    for (unsigned i = 0; i < count; ++i) {
      if (fibers[i]->state == State::kYields) Die("a thread waits for what never comes");
      if (fibers[i]->state != State::kReturned) Die("threads wait at different barriers");
    }
    if (!bulk_copies.empty()) Die("a block ends before its copies have come");
    return;
  }
}

}  // namespace

void RunGrid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread) {
  if (shared_bytes > kSharedBytes) Die("a kernel wants more shared memory than a block has");
  count = block.x * block.y * block.z;
  if (count > 1024) Die("a block has more than 1,024 threads");
  while (fibers.size() < count) fibers.push_back(std::make_unique<Fiber>());
  warps.resize((count + 31) / 32);
  body = &thread;
  gridDim = grid;
  blockDim = block;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = {x, y, z};
        std::memset(shared, 0xFF, shared_bytes);  // NaN, so that nothing relies on old numbers
        RunBlock();
      }
    }
  }
}

char* SharedMemory() {
  return shared;
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
