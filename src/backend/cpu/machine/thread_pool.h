// ThreadPool: a fixed set of threads that run the parts of one kernel at a time.
//
// A kernel takes microseconds, so threads spin for a moment before they sleep, and the caller works
// too. Parts are claimed one by one: a thread that the system has preempted delays only the part
// that it holds, and a sleeping thread delays none.
//
// Owned by one backend, for one calling thread at a time. A call from within a part runs its parts
// sequentially on the same thread. Starting a kernel costs about a microsecond while threads spin,
// and tens of microseconds if they have to be woken.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "backend/meanwhile.h"

namespace pie::cpu {

class ThreadPool {
 public:
  // `threads` includes the caller: 1 (or 0) starts no thread. It is limited to AvailableCpus(),
  // because more threads would only compete for the processors.
  explicit ThreadPool(unsigned threads = AvailableCpus());
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Number of processors that this process may run on, at least 1.
  static unsigned AvailableCpus();

  // Sets the work that threads do while no kernel runs. May be called once.
  void SetMeanwhile(std::shared_ptr<Meanwhile> meanwhile);

  unsigned threads() const { return static_cast<unsigned>(workers_.size()) + 1; }

  // Runs part(i) once for every i in [0, parts), in any order, and returns when all are done.
  // Everything that parts wrote is then visible to the caller. When all parts have ended, rethrows
  // the first exception of a part, if there is one.
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
  // Runs parts of the current job until all are claimed.
  void RunParts();
  void WaitForParts(uint32_t parts);
  void KeepThrown();
  void Rethrow();

  // The current job, in one cache line. The caller writes it while no part is unclaimed; RunParts
  // explains why a late worker still reads a consistent job.
  alignas(64) std::atomic<Call> call_ = nullptr;
  std::atomic<void*> state_ = nullptr;
  std::atomic<uint32_t> parts_ = 0;
  // (job number << 32 | parts not yet claimed). A claim is one compare-and-swap.
  std::atomic<uint64_t> ticket_ = 0;

  // On separate cache lines, because workers poll epoch_ all the time.
  alignas(64) std::atomic<uint32_t> epoch_ = 0;     // job number; workers sleep on it
  alignas(64) std::atomic<uint32_t> finished_ = 0;  // parts of this job that are done
  alignas(64) std::atomic<bool> stopping_ = false;
  std::atomic<bool> has_thrown_ = false;
  std::mutex thrown_mutex_;
  std::exception_ptr thrown_;
  std::shared_ptr<Meanwhile> meanwhile_;
  std::atomic<Meanwhile*> set_meanwhile_ = nullptr;  // the same pointer, for the workers
  std::vector<std::thread> workers_;
};

}  // namespace pie::cpu
