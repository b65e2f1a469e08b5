// ThreadPool: a fixed set of threads that run the parts of one kernel at a time.
//
// A kernel takes microseconds, so threads wait for the next one by spinning for a moment before
// they sleep, and the caller works too. Parts are handed out one by one: a thread that the system
// has taken off its core delays only the part that it holds, and a thread that sleeps delays none.
//
// Owner: one backend. For one calling thread at a time; a call from within a part runs its parts
// right there, one after the other. Cost: about a microsecond while threads spin, a few tens when
// they have to be woken. Parts may not throw.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "backend/meanwhile.h"

namespace pie::cpu {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 (or 0) starts none. More than the machine lends would only get
  // in one another's way, so it is cut to AvailableCpus().
  explicit ThreadPool(unsigned threads = AvailableCpus());
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Processors that this process may run on; at least 1.
  static unsigned AvailableCpus();

  // What workers do while there is no kernel to run; once.
  void SetMeanwhile(std::shared_ptr<Meanwhile> meanwhile);

  unsigned threads() const { return static_cast<unsigned>(workers_.size()) + 1; }

  // Runs part(i) once for every i in [0, parts), in any order, and returns when all are done. What
  // parts wrote is then visible to the caller.
  template <class Part>
  void ParallelFor(uint32_t parts, Part&& part) {
    using Type = std::remove_reference_t<Part>;
    const auto call = [](void* state, uint32_t index) { (*static_cast<Type*>(state))(index); };
    Run(parts, call, const_cast<std::remove_const_t<Type>*>(&part));
  }

 private:
  using Call = void (*)(void* state, uint32_t index);

  void Run(uint32_t parts, Call call, void* state);
  void Work();
  template <class Done>
  bool SpinIdly(Done&& done);
  // Runs parts of the open job until none is left to claim.
  void RunParts();

  // The job under way, all in one line. Written by the caller while no part is open; see RunParts
  // for why a worker that comes late still reads the right ones.
  alignas(64) std::atomic<Call> call_ = nullptr;
  std::atomic<void*> state_ = nullptr;
  std::atomic<uint32_t> parts_ = 0;
  // (job number << 32 | parts not yet claimed). Claiming is one compare-and-swap.
  std::atomic<uint64_t> ticket_ = 0;

  // Apart from it: workers look at this one all the time.
  alignas(64) std::atomic<uint32_t> epoch_ = 0;     // job number, what workers sleep on
  alignas(64) std::atomic<uint32_t> finished_ = 0;  // parts of this job that are done
  alignas(64) std::atomic<bool> stopping_ = false;
  std::shared_ptr<Meanwhile> meanwhile_;
  std::atomic<Meanwhile*> set_meanwhile_ = nullptr;  // the same, for the workers
  std::vector<std::thread> workers_;
};

}  // namespace pie::cpu
