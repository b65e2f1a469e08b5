// Scheduler: the queue in front of one device, and the step thread behind it.
//
// Any thread may call; calls never wait for the device. The step thread owns all KV metadata:
// callers speak of sequences by id, and operations on a sequence happen in the order in which they
// were asked for, each after the passes queued before it. So a caller can keep its own count of
// tokens and pages, and validate against that, without ever asking the step thread.
//
// Failure: a Forward's `done` is called exactly once, on the step thread, unless its sequence was
// dropped or the scheduler is destroyed before the pass ran; then it is destroyed without being
// called. A chain's `done` comes at its end, with the slots of its last pass. A pass that fails
// leaves its sequence broken: the sequence gives its pages back, and every later pass on it (and on
// its forks) fails with the same error.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backend/adapter.h"
#include "backend/backend.h"
#include "backend/meanwhile.h"
#include "base/ids.h"
#include "base/result.h"
#include "kv/prefix_index.h"
#include "kv/stored_kv.h"
#include "sched/chain.h"
#include "sched/market.h"
#include "sched/memory_options.h"
#include "sched/policy.h"
#include "sched/token_rules.h"

namespace pie {

struct View;

// One pass, as asked for. The tokens extend the sequence. `Validate` (pass.h) has found it valid.
struct Forward {
  SequenceId sequence;
  std::vector<uint32_t> tokens;     // never empty
  std::vector<uint32_t> positions;  // one per token
  std::vector<Brle> attention;      // empty = causal; else one per token
  Brle logit_mask;                  // empty = everything allowed
  std::vector<SampleSpec> samples;  // rows < tokens.size()
  uint64_t seed = 0;
  // The first token and its position stand for the last row of the sequence, which is read: the row
  // is computed again.
  bool repeats_last = false;
  // Rules that restrict the chosen tokens. They include the logit mask. Null: only the logit mask
  // restricts them.
  std::shared_ptr<TokenRules> rules;
  // The last `drafts` tokens are guesses, of a pass with a chain. Rows from `first_draw` on choose
  // the chain's tokens, by these keys; none: every row has the seed and its own number.
  uint32_t drafts = 0;
  std::vector<DrawKey> draws;
  uint32_t first_draw = 0;
  std::optional<double> bid;     // credits for a page and a tick, of this pass alone
  std::unique_ptr<Chain> chain;  // the passes that follow by themselves; null = none
  // Changes the model for these tokens, and for those of the chain.
  RowAdapter adapter;
  DeviceAdapterPtr adapter_weights;  // those of adapter.version; null = the model alone
  // Counts the tokens that were found in the prefix cache and not computed; those that the chain
  // chose do not count. The step thread adds to it before `done`. Null = the caller does not ask.
  std::shared_ptr<std::atomic<uint64_t>> cached_tokens;

  RowsView rows(size_t first, size_t count) const {
    return RowsView{tokens, positions, attention, adapters()}.Sub(first, count);
  }
  std::span<const RowAdapter> adapters() const { return {&adapter, adapter_weights ? 1U : 0U}; }
  // Takes the result, on the step thread. It must be quick and never block.
  std::move_only_function<void(Result<std::vector<Slot>>)> done;
};

struct SchedulerOptions {
  uint32_t max_batch_tokens = 0;  // 0 = the device's own
  uint32_t max_batch_members = 0;
  BatchPolicy batch_policy = BatchPolicy::kAdaptive;
  uint32_t spin_us = 200;       // how long the step thread spins for work before it sleeps
  uint32_t page_wait_ms = 100;  // a pass that waits this long for pages while nothing runs fails
  PrefixOptions prefix;         // which pages are kept and found again
  MemoryOptions memory;         // how pages are shared when there are too few
  uint32_t request_timeout_ms = 120'000;  // a pass that has waited this long fails; 0 = never
  bool chains = true;                     // false: callers must not ask for chains
  // Threads that help to run guests (crew.h). None: as many as suit the machine and the device.
  std::optional<size_t> crew_threads = std::nullopt;
  // For tests.
  bool check_integrity = false;      // count all pages after every step
  uint32_t suspend_every_steps = 0;  // suspend a lane after every n-th batch; 0 = never
};

// Counts, for tests, for metrics, and for the check that a guest left nothing behind.
struct SchedulerStats {
  uint64_t sequences = 0;
  uint64_t pages_used = 0;
  uint64_t pages_total = 0;
  uint64_t queued = 0;
  uint64_t steps = 0;
  uint64_t steps_ahead = 0;   // submitted while another batch was in flight
  uint64_t tokens = 0;        // computed
  uint64_t drafted = 0;       // tokens that were guessed, and verified with others
  uint64_t confirmed = 0;     // those of them that were right
  uint64_t pages_cached = 0;  // unused pages that may be useful again
  PrefixStats prefix;
  uint64_t pages_restored = 0;   // read from where they were stored
  uint64_t suspensions = 0;      // times that a sequence lost its pages
  uint64_t looks = 0;            // at sequences, to decide which of them have pages
  uint64_t replayed_tokens = 0;  // computed again because of it
  uint64_t pages_swapped = 0;    // copied to host memory instead
  double price = 0;              // credits for a page and a tick
  double last_step_seconds = 0;
  uint64_t integrity_checks = 0;    // made while there was nothing to do
  uint64_t integrity_failures = 0;  // checks that found a mismatch: a bug of the engine
};

class Scheduler {
 public:
  Scheduler(std::unique_ptr<Backend> backend, SchedulerOptions options);
  ~Scheduler();  // stops the step thread after the batch under way; queued passes are dropped
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  const BackendInfo& info() const;
  bool chains_allowed() const;
  // Makes the device's form of an adapter that fits info().adapters. Slow; waits for no batch.
  Result<DeviceAdapterPtr> LoadAdapter(const AdapterWeights& weights) const;

  // Sets what the step thread does while it waits for guests. Call it before there are any.
  void SetMeanwhile(std::shared_ptr<Meanwhile> meanwhile);

  // An account pays for pages; it has the endowment that is configured. A sequence without an
  // account pays nothing.
  AccountId OpenAccount(std::shared_ptr<AccountView> view);
  void CloseAccount(AccountId);
  void Own(SequenceId, AccountId);

  // A new sequence, which shares pages with others of that salt.
  SequenceId Create(const CacheSalt& salt = {}, AccountId account = {});
  SequenceId Fork(SequenceId parent, AccountId account = {});  // copy-on-write
  void Truncate(SequenceId, uint32_t tokens);                  // keep the first `tokens`
  void Suspend(SequenceId);                   // gives its pages back; the next pass restores them
  void Bid(SequenceId, const BidPlan& bids);  // replaces the earlier plan
  // Gives its pages back; queued passes on it vanish. `held` is destroyed when nothing is left of
  // the sequence: forks may still need what waits on it.
  void Drop(SequenceId, std::shared_ptr<const void> held = nullptr);
  void Execute(Forward forward);

  // A sequence that begins with `stored`, whose layout and model are those of this device. Its
  // pages come into the device when a pass needs them, unless they are there already. `adapters`
  // holds every version that the stored rows name.
  SequenceId Open(const CacheSalt& salt, std::shared_ptr<const StoredKv> stored,
                  AccountId account = {}, AdaptersByVersion adapters = {});
  // Reads pages [first_page, first_page + pages) of a sequence, as far as it has them, when all
  // operations before are done. `done` is called like that of a Forward.
  void Read(SequenceId, uint32_t first_page, uint32_t pages,
            std::move_only_function<void(Result<KvContent>)> done);

  // The last view that was made (view.h), which may be old, or null. Asks the step thread for a new
  // one, a few times a second at most. Never waits.
  std::shared_ptr<const View> Watch() const;
  SchedulerStats stats() const;  // may trail the step thread by a step
  // Waits until everything asked for so far is done (tests, shutdown); never
  // from `done`. False after `timeout_ms`.
  bool WaitIdle(int timeout_ms);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pie
