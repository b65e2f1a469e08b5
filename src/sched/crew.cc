#include "sched/crew.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/cpu_relax.h"
#include "base/thread_team.h"

namespace pie {
namespace {

using Steady = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr size_t kMostThreads = 12;
constexpr size_t kGuestsPerHelper = 4;
// Processors for the step thread, and for what else the engine does.
constexpr size_t kOtherProcessors = 3;
// How much sooner than the guests the threads are there: a thread wakes up late by about 100 us.
constexpr auto kEarly = microseconds(150);
// How long they wait for guests that are late, at least and at most.
constexpr auto kShortPatience = microseconds(200);
constexpr auto kLongPatience = microseconds(1000);
// How long they look for further guests.
constexpr auto kLinger = microseconds(50);

}  // namespace

struct Crew::Seat {
  // Asks its thread to look for guests within this time.
  void Ask(Steady::time_point begin, Steady::time_point end) {
    const std::lock_guard lock(mutex);
    from = begin;
    until = end;
    ++calls;
    changed.notify_one();
  }

  std::mutex mutex;
  std::condition_variable changed;
  uint64_t calls = 0;
  bool ends = false;
  Steady::time_point from;  // look for guests from here
  Steady::time_point until;
  std::atomic<bool> looks = false;
  std::thread thread;
};

Crew::Crew(size_t threads) : threads_(threads) {}

Crew::~Crew() {
  for (const auto& seat : seats_) {
    const std::lock_guard lock(seat->mutex);
    seat->ends = true;
    seat->changed.notify_one();
  }
  for (const auto& seat : seats_) seat->thread.join();
}

size_t Crew::Size() {
  const size_t processors = ThreadTeam::Size(kMostThreads + kOtherProcessors);
  return processors - std::min(processors, kOtherProcessors);
}

size_t Crew::Helpers(size_t threads, size_t guests) {
  const size_t helpers = guests / kGuestsPerHelper;
  return helpers < 2 ? 0 : std::min(threads, helpers - 1);  // the step thread is one of them
}

void Crew::Begin(std::shared_ptr<Meanwhile> meanwhile) {
  meanwhile_ = std::move(meanwhile);
  while (seats_.size() < threads_) {
    auto seat = std::make_unique<Seat>();
    try {
      seat->thread = std::thread([this, seat = seat.get()] {
        pthread_setname_np(pthread_self(), "pie-crew");
        Work(*seat);
      });
    } catch (const std::system_error&) {
      return;  // the system gives no more threads, and the crew is smaller
    }
    seats_.push_back(std::move(seat));
  }
}

void Crew::Expect(size_t guests, std::chrono::nanoseconds in) {
  const auto due = Steady::now() + in;
  const auto patience = std::clamp<Steady::duration>(in / 8, kShortPatience, kLongPatience);
  for (size_t i = 0; i < Helpers(seats_.size(), guests); ++i) {
    seats_[i]->Ask(due - kEarly, due + patience);
  }
}

void Crew::Call(size_t guests) {
  for (size_t i = 0; i < Helpers(seats_.size(), guests); ++i) {
    if (seats_[i]->looks.load(std::memory_order_relaxed)) continue;
    const auto now = Steady::now();
    seats_[i]->Ask(now, now + kShortPatience);
  }
}

void Crew::Work(Seat& seat) {
  uint64_t seen = 0;
  std::unique_lock lock(seat.mutex);
  const auto called = [&] { return seat.ends || seat.calls != seen; };
  while (true) {
    seat.changed.wait(lock, called);
    if (seat.ends) return;
    seen = seat.calls;
    if (seat.changed.wait_until(lock, seat.from, called)) continue;
    const auto until = seat.until;
    lock.unlock();
    seat.looks.store(true, std::memory_order_relaxed);
    Look(until);
    seat.looks.store(false, std::memory_order_relaxed);
    lock.lock();
  }
}

void Crew::Look(Steady::time_point until) {
  constexpr int kSpins = 32;
  constexpr uint32_t kRoundsPerYield = 16;  // of about a microsecond each
  for (uint32_t round = 1; Steady::now() < until; ++round) {
    if (meanwhile_->RunOne()) {
      while (meanwhile_->RunOne()) {
      }
      until = Steady::now() + kLinger;
    }
    for (int i = 0; i < kSpins; ++i) CpuRelax();
    if (round % kRoundsPerYield == 0) std::this_thread::yield();
  }
}

}  // namespace pie
