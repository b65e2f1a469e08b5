#include "sched/queue.h"

#include <algorithm>
#include <utility>

namespace pie {
namespace {

thread_local bool t_never_waits = false;

}  // namespace

void Fence::Signal() {
  // Under the lock: the waiter may be gone, and the fence with it, as soon as it is released.
  const std::lock_guard lock(mutex_);
  signalled_ = true;
  changed_.notify_all();
}

bool Fence::WaitFor(std::chrono::milliseconds timeout) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, timeout, [this] { return signalled_; });
}

void CommandQueue::Push(Command command) {
  bool wake = false;
  {
    std::unique_lock lock(mutex_);
    std::vector<Command>& commands = waiting_.commands;
    if (meanwhile_ && commands.size() >= limit_ / 2) meanwhile_->Crowded();
    if (commands.size() >= limit_ && !t_never_waits) {
      ++waiting_callers_;
      space_.wait(lock, [&] { return commands.size() < limit_ || closed(); });
      --waiting_callers_;
    }
    if (closed()) return;
    commands.push_back(std::move(command));
    size_.store(commands.size(), std::memory_order_relaxed);
    pending_.store(true, std::memory_order_release);
    wake = wake_at_ > 0 && commands.size() >= wake_at_;
    if (wake) wake_at_ = 0;
  }
  if (wake) work_.notify_one();
}

void CommandQueue::Bid(SequenceId sequence, const BidPlan& bids) {
  const std::lock_guard lock(mutex_);
  if (closed()) return;
  waiting_.bids[sequence] = bids;
  has_bids_.store(true, std::memory_order_release);
}

void CommandQueue::Close() {
  {
    const std::lock_guard lock(mutex_);
    closed_.store(true, std::memory_order_release);
    pending_.store(true, std::memory_order_release);
    wake_at_ = 0;
  }
  work_.notify_all();
  space_.notify_all();
}

void CommandQueue::NeverWaitHere() {
  t_never_waits = true;
}

bool CommandQueue::Drain(Drained& drained) {
  drained.commands.clear();
  drained.bids.clear();
  if (!pending() && !has_bids_.load(std::memory_order_acquire)) return false;
  bool was_full = false;
  {
    const std::lock_guard lock(mutex_);
    drained.commands.swap(waiting_.commands);
    if (has_bids_.load(std::memory_order_relaxed)) {
      drained.bids.swap(waiting_.bids);
      has_bids_.store(false, std::memory_order_relaxed);
    }
    size_.store(0, std::memory_order_relaxed);
    pending_.store(closed(), std::memory_order_release);
    was_full = waiting_callers_ > 0;
  }
  if (was_full) space_.notify_all();
  return !drained.commands.empty() || !drained.bids.empty();
}

void CommandQueue::Sleep(std::optional<std::chrono::nanoseconds> timeout, size_t commands) {
  std::unique_lock lock(mutex_);
  // A full queue always wakes the step thread, because callers wait for it then.
  commands = std::clamp<size_t>(commands, 1, limit_);
  const auto woken = [&] { return waiting_.commands.size() >= commands || closed(); };
  if (woken()) return;
  wake_at_ = commands;
  if (timeout) {
    work_.wait_for(lock, *timeout, woken);
  } else {
    work_.wait(lock, woken);
  }
  wake_at_ = 0;
}

}  // namespace pie
