#include "backend/cpu/machine/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/cpu_relax.h"

namespace pie::cpu {
namespace {

// Tens of microseconds: longer than the gap between two kernels of a step, and too short to matter
// otherwise.
constexpr int kSpins = 2'000;
// A worker without a job spins less, because guests need the cores between two steps. It runs the
// guests that Meanwhile offers. Then it yields its core for a while, about a microsecond each time,
// which keeps the core from entering a sleep state that the next job would have to wait for.
constexpr int kIdleSpins = 16;  // rounds
constexpr int kSpinsPerRound = 25;
constexpr int kIdleYields = 200;

thread_local bool t_inside_part = false;

// Returns true if `done` became true while spinning.
template <class Done>
bool Spin(Done&& done, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (done()) return true;
    CpuRelax();
  }
  return false;
}

}  // namespace

void ThreadPool::SetMeanwhile(std::shared_ptr<Meanwhile> meanwhile) {
  if (meanwhile_) return;
  meanwhile_ = std::move(meanwhile);
  set_meanwhile_.store(meanwhile_.get(), std::memory_order_release);
}

template <class Done>
bool ThreadPool::SpinIdly(Done&& done) {
  Meanwhile* const meanwhile = set_meanwhile_.load(std::memory_order_acquire);
  for (int i = 0; i < kIdleSpins + kIdleYields; ++i) {
    if (Spin(done, i < kIdleSpins ? kSpinsPerRound : 1)) return true;
    if (meanwhile != nullptr && meanwhile->RunOne()) {
      i = 0;
    } else if (i >= kIdleSpins) {
      sched_yield();
    }
  }
  return false;
}

unsigned ThreadPool::AvailableCpus() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(CPU_COUNT(&set), 1);
  return std::max(std::thread::hardware_concurrency(), 1U);
}

ThreadPool::ThreadPool(unsigned threads) {
  const unsigned count = std::clamp(threads, 1U, AvailableCpus());
  for (unsigned i = 1; i < count; ++i) workers_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Run(uint32_t parts, Call call, void* state) {
  if (parts == 0) return;
  if (parts == 1 || workers_.empty() || t_inside_part) {
    for (uint32_t i = 0; i < parts; ++i) call(state, i);
    return;
  }
  call_.store(call, std::memory_order_relaxed);
  state_.store(state, std::memory_order_relaxed);
  parts_.store(parts, std::memory_order_relaxed);
  finished_.store(0, std::memory_order_relaxed);
  const uint32_t job = epoch_.load(std::memory_order_relaxed) + 1;
  ticket_.store(static_cast<uint64_t>(job) << 32 | parts, std::memory_order_release);
  epoch_.store(job, std::memory_order_release);
  epoch_.notify_all();  // makes no system call unless a thread sleeps

  RunParts();
  WaitForParts(parts);
  if (has_thrown_.load(std::memory_order_relaxed)) Rethrow();
}

// The first exception of a part is rethrown where the job was started, after all parts have ended:
// until then they may use the objects that the job's state points to.
void ThreadPool::KeepThrown() {
  std::lock_guard lock(thrown_mutex_);
  if (!thrown_) thrown_ = std::current_exception();
  has_thrown_.store(true, std::memory_order_relaxed);
}

void ThreadPool::Rethrow() {
  std::lock_guard lock(thrown_mutex_);
  has_thrown_.store(false, std::memory_order_relaxed);
  std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadPool::WaitForParts(uint32_t parts) {
  const auto all_done = [&] { return finished_.load(std::memory_order_acquire) == parts; };
  if (Spin(all_done, kSpins)) return;
  for (uint32_t seen; (seen = finished_.load(std::memory_order_acquire)) != parts;) {
    finished_.wait(seen, std::memory_order_acquire);
  }
}

void ThreadPool::RunParts() {
  t_inside_part = true;
  uint32_t done = 0;
  uint32_t all = 0;
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(ticket) != 0) {
    // The job's fields are read before the claim, and the claim proves that they belong together:
    // the caller replaces them only when no part is unclaimed, and the compare-and-swap succeeds
    // only if this part was unclaimed all along, because tickets never repeat.
    const Call call = call_.load(std::memory_order_relaxed);
    void* const state = state_.load(std::memory_order_relaxed);
    const uint32_t parts = parts_.load(std::memory_order_relaxed);
    if (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      continue;
    }
    try {
      call(state, parts - static_cast<uint32_t>(ticket));
    } catch (...) {
      KeepThrown();
    }
    ++done;
    all = parts;
    ticket = ticket_.load(std::memory_order_acquire);
  }
  t_inside_part = false;
  // Each thread adds its count once, because this cache line moves between cores. No other job can
  // have started, as parts of this one were unfinished.
  if (done == 0) return;
  if (finished_.fetch_add(done, std::memory_order_acq_rel) + done == all) finished_.notify_one();
}

void ThreadPool::Work() {
  uint32_t seen = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    RunParts();
    const auto changed = [&] { return epoch_.load(std::memory_order_acquire) != seen; };
    if (!SpinIdly(changed)) epoch_.wait(seen, std::memory_order_acquire);
    seen = epoch_.load(std::memory_order_acquire);
  }
}

}  // namespace pie::cpu
