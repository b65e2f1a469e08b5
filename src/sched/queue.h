// CommandQueue: from any thread to the step thread. Commands come out in the order they went in.
//
// Bounded: a caller that finds it full waits until the step thread has drained it, which takes at
// most a step. Step threads, of whatever scheduler, never wait: they run `done` callbacks, and
// guests. Cost: an uncontended lock a push, one lock a drain however many commands there are. A
// push makes a system call only when the step thread sleeps.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/meanwhile.h"
#include "base/ids.h"
#include "base/limits.h"
#include "kv/prefix_index.h"
#include "sched/market.h"
#include "sched/pass.h"

namespace pie {

// One-shot: the step thread signals, somebody waits.
class Fence {
 public:
  void Signal();
  bool WaitFor(std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool signalled_ = false;
};

struct Command {
  enum class Kind : uint8_t {
    kCreate,
    kFork,
    kTruncate,
    kSuspend,
    kDrop,
    kExecute,
    kRead,
    kBid,
    kOwn,
    kOpenAccount,
    kCloseAccount,
    kMeanwhile,
    kFence
  };

  Kind kind = Kind::kCreate;
  SequenceId sequence = {};
  SequenceId child = {};                        // kFork
  CacheSalt salt = {};                          // kCreate
  std::shared_ptr<const StoredKv> stored = {};  // kCreate: what it begins with; null = nothing
  std::unique_ptr<KvRead> read = {};            // kRead
  uint32_t tokens = 0;                          // kTruncate; kOpenAccount: its endowment, in pages
  AccountId account = {};                       // kCreate, kFork, kOwn, kOpenAccount, kCloseAccount
  double bid = 0;                               // kBid
  std::shared_ptr<AccountView> view = {};       // kOpenAccount
  std::unique_ptr<Pass> pass = {};              // kExecute
  std::shared_ptr<Meanwhile> meanwhile = {};    // kMeanwhile
  std::shared_ptr<Fence> fence = {};            // kFence
};

class CommandQueue {
 public:
  explicit CommandQueue(size_t limit = limits::kQueuedCommands) : limit_(limit) {}

  // Any thread. After Close, commands are destroyed unread.
  void Push(Command command);
  void Close();  // wakes everybody

  // Of this thread: from now on it waits for no queue.
  static void NeverWaitHere();

  // Step thread.
  bool Drain(std::vector<Command>& commands);  // replaces what is there; false: nothing came
  bool pending() const { return pending_.load(std::memory_order_acquire); }  // work, or closed
  size_t size() const { return size_.load(std::memory_order_relaxed); }      // commands
  // `commands` are there, or nothing comes any more.
  bool Holds(size_t commands) const { return closed() || size() >= commands; }
  bool closed() const { return closed_.load(std::memory_order_acquire); }
  // Until `commands` are there (or the queue is closed), or the timeout.
  void Sleep(std::optional<std::chrono::nanoseconds> timeout, size_t commands = 1);

 private:
  const size_t limit_;
  std::mutex mutex_;
  std::condition_variable work_;   // for the step thread
  std::condition_variable space_;  // for callers
  std::vector<Command> commands_;
  uint32_t waiting_callers_ = 0;
  size_t wake_at_ = 0;  // commands that the sleeping step thread waits for; 0 = it does not sleep
  std::atomic<bool> pending_ = false;
  std::atomic<size_t> size_ = 0;
  std::atomic<bool> closed_ = false;
};

}  // namespace pie
