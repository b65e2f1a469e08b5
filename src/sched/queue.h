// CommandQueue: from any thread to the step thread. Commands come out in the order they went in.
//
// Commands are bounded: a caller that finds the queue full waits until the step thread has drained
// it, which takes at most a step. A guest that finds it half full continues on a thread of its
// user, so that a full queue holds up no guests of others. Step threads, of whatever scheduler,
// never wait: they run `done` callbacks, and guests. A bid is not a command but a value: the last
// one for each sequence is kept until the step thread next drains the queue, so bidding never waits
// and wakes no thread.
//
// Cost: an uncontended lock a push, one lock a drain however many commands there are. A push makes
// a system call only when the step thread sleeps.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/meanwhile.h"
#include "base/ids.h"
#include "base/limits.h"
#include "sched/command.h"
#include "sched/market.h"

namespace pie {

class CommandQueue {
 public:
  // The content of the queue. A bid may be for a sequence that one of the commands creates.
  struct Drained {
    std::vector<Command> commands;
    std::unordered_map<SequenceId, BidPlan> bids;
  };

  explicit CommandQueue(size_t limit = limits::kQueuedCommands) : limit_(limit) {}

  // From now on, a caller that finds the queue half full calls Meanwhile::Crowded.
  void SetMeanwhile(std::shared_ptr<Meanwhile> meanwhile) {
    const std::lock_guard lock(mutex_);
    meanwhile_ = std::move(meanwhile);
  }
  // Any thread. After Close, commands are destroyed unread.
  void Push(Command command);
  void Bid(SequenceId sequence, const BidPlan& bids);
  void Close();  // wakes every thread that waits

  // From now on, the calling thread never waits for a queue.
  static void NeverWaitHere();

  // Step thread.
  bool Drain(Drained& drained);  // replaces the content of `drained`; false if no command came
  bool pending() const {         // there are commands, or the queue is closed
    return pending_.load(std::memory_order_acquire);
  }
  size_t size() const { return size_.load(std::memory_order_relaxed); }  // commands
  // Whether the queue holds `commands` commands, or is closed.
  bool Holds(size_t commands) const { return closed() || size() >= commands; }
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  // Sleeps until the queue holds `commands` commands or is closed, or until the timeout.
  void Sleep(std::optional<std::chrono::nanoseconds> timeout, size_t commands = 1);

 private:
  const size_t limit_;
  std::shared_ptr<Meanwhile> meanwhile_;  // null: callers are no guests
  std::mutex mutex_;
  std::condition_variable work_;   // for the step thread
  std::condition_variable space_;  // for callers
  Drained waiting_;
  uint32_t waiting_callers_ = 0;
  size_t wake_at_ = 0;  // commands that the sleeping step thread waits for; 0 = it does not sleep
  std::atomic<bool> pending_ = false;
  std::atomic<bool> has_bids_ = false;
  std::atomic<size_t> size_ = 0;
  std::atomic<bool> closed_ = false;
};

}  // namespace pie
