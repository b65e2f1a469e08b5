// Command: a request of another thread to the step thread, with one type for each kind.
//
// Commands about one sequence take effect in the order in which they were pushed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <variant>

#include "backend/adapter.h"
#include "backend/meanwhile.h"
#include "base/ids.h"
#include "kv/prefix_index.h"
#include "kv/stored_kv.h"
#include "sched/market.h"
#include "sched/pass.h"

namespace pie {

// One-shot: the step thread signals it, and another thread waits for it.
class Fence {
 public:
  void Signal();
  bool WaitFor(std::chrono::milliseconds timeout);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool signalled_ = false;
};

namespace command {

struct Create {
  SequenceId sequence;
  CacheSalt salt = {};
  AccountId account = {};
  std::shared_ptr<const StoredKv> stored = {};  // the tokens it begins with; null = none
  AdaptersByVersion adapters = {};              // those that its rows name
};
struct Fork {
  SequenceId parent;
  SequenceId child;
  AccountId account = {};
};
struct Truncate {
  SequenceId sequence;
  uint32_t tokens = 0;  // how many to keep
};
struct Suspend {
  SequenceId sequence;
};
struct Drop {
  SequenceId sequence;
  std::shared_ptr<const void> held = {};  // lives until the lane is destroyed; may be null
};
struct Execute {
  std::unique_ptr<ScheduledPass> pass;  // it names its sequence
};
struct Read {
  SequenceId sequence;
  std::unique_ptr<KvRead> read;
};
struct Own {
  SequenceId sequence;
  AccountId account;
};
struct OpenAccount {
  AccountId account;
  uint32_t endowment_pages = 0;
  std::shared_ptr<AccountView> view = {};  // may be null
};
struct CloseAccount {
  AccountId account;
};
struct UseMeanwhile {
  std::shared_ptr<Meanwhile> meanwhile;
};
// A draft model has guessed for the chain of this sequence, which may have ended since.
struct Drafted {
  SequenceId sequence;
};
// The rules of this sequence's pass have worked ahead (TokenRules). `work` is the number of the
// work: the pass may have ended since.
struct WorkedAhead {
  SequenceId sequence;
  uint64_t work = 0;
};
// A reader asks for a new view.
struct Look {};
// Signals the fence when all earlier commands are done.
struct Await {
  std::shared_ptr<Fence> fence;
};

}  // namespace command

using Command = std::variant<command::Create, command::Fork, command::Truncate, command::Suspend,
                             command::Drop, command::Execute, command::Read, command::Own,
                             command::OpenAccount, command::CloseAccount, command::UseMeanwhile,
                             command::Drafted, command::WorkedAhead, command::Look, command::Await>;

}  // namespace pie
