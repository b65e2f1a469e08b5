// Lane: one sequence, the operations that wait on it, and the state that it is in.
//
// The state has two parts. The phase says what the lane is doing, the residence says where its
// tokens are. Only LaneStates (lane_states.h) changes them.
//
// Owner: the step thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "backend/adapter.h"
#include "base/ids.h"
#include "base/result.h"
#include "kv/history.h"
#include "kv/sequence.h"
#include "kv/stored_kv.h"
#include "sched/cohort.h"
#include "sched/market.h"
#include "sched/pass.h"

namespace pie {

struct Operation {
  enum class Kind : uint8_t { kPass, kFork, kTruncate, kRead, kSuspend };
  Kind kind = Kind::kPass;
  uint32_t tokens = 0;                       // kTruncate
  uint64_t ticket = 0;                       // order of arrival
  SequenceId child = {};                     // kFork
  std::unique_ptr<ScheduledPass> pass = {};  // kPass
  std::unique_ptr<KvRead> read = {};         // kRead
};

enum class Phase : uint8_t {
  kAwaitsFork,  // The parent has not yet reached the fork that gives this lane its tokens.
  kIdle,        // No operation has begun.
  kDrafting,    // The next pass of its chain waits for the guesses of a draft model.
  kChecking,    // Its pass has run, and another thread applies slow rules to the chosen token.
  kMasking,     // Its next pass waits for the masks of slow rules.
  kReady,       // The lane waits for a batch, or for pages to restore its tokens into.
  kRestoring,   // Its stored pages are being written to the device.
  kReading,     // Its read is answered between the next two batches.
  kBoarded,     // Its pass is in the batch that is being built.
  kRunning,     // Its pass is in a batch on the device.
};

enum class Residence : uint8_t {
  kResident,   // The tokens are in the lane's pages.
  kAdmitted,   // The same, and the lane keeps its pages until some of its pass has run.
  kSuspended,  // The tokens are elsewhere (Parked), and the lane holds no pages.
  kReturning,  // The tokens come back into pages, by a replay or from where they are stored.
};

// The tokens of a lane that is suspended or returning.
struct Parked {
  std::shared_ptr<const StoredKv> stored;  // null: the tokens have to be computed again
  std::optional<History> history;          // in that case: the rows that the sequence was fed
  uint32_t tokens = 0;                     // how many of them, counted from the first, the lane has
};

struct Lane {
  Lane(SequenceId lane_id, Sequence sequence) : id(lane_id), kv(std::move(sequence)) {}

  const SequenceId id;
  Sequence kv;
  AccountId account = {};  // the account that pays for its pages
  BidPlan bids;
  uint64_t steps = 0;                 // passes that ended and were read
  uint64_t steps_at_expectation = 0;  // `steps` when the expectation was stated
  Phase phase = Phase::kIdle;         // written by LaneStates alone
  Residence residence = {};           // written by LaneStates alone
  bool dropped = false;               // its id is no longer valid
  std::shared_ptr<const void> held;   // what its owner has left to it; it may be a charge
  bool runnable = false;              // in LaneTable's list of lanes to look at
  bool masked = false;                // some of its tokens may have masks
  bool adopting = false;              // it may find further pages of its pass in the next round
  std::optional<Error> broken;        // every later pass fails with it
  std::optional<Error> closed;        // too many operations wait: newcomers fail with it
  std::optional<Parked> parked;       // set while the lane is suspended or returning
  Cohort::Peer peer;                  // for the batch policy
  // Adapters that its tokens were computed with, kept in memory in case they are computed again.
  AdaptersByVersion adapters;
  std::vector<Operation> operations;  // [head, end) wait; the vector is reused
  size_t head = 0;

  // The operation that has begun: a pass, or a read, or none.
  std::unique_ptr<ScheduledPass> pass;
  std::unique_ptr<KvRead> read;
  uint64_t ticket = 0;         // its order of arrival
  uint64_t place = 0;          // the lane's place among those that wait for a batch
  int64_t ready_since_ns = 0;  // when it began to wait for a batch
  uint64_t work = 0;  // the number of the work that a lane waits for in kChecking, kMasking
  // Computes the parked tokens again, before the pass. Tokens of different adapters, and many rows
  // with large masks, are computed by one replay after another.
  std::unique_ptr<ScheduledPass> replay;
  size_t replay_mask_bytes = 0;  // of the copies of masks that the replay has

  uint32_t tokens() const { return parked ? parked->tokens : kv.tokens(); }
  size_t waiting() const { return operations.size() - head; }
  bool busy() const { return pass || read; }
  bool in_batch() const { return phase == Phase::kBoarded || phase == Phase::kRunning; }
  bool suspended() const { return residence == Residence::kSuspended; }
  // Whether the lane was admitted and has not run since. Then it keeps its pages.
  bool keeps_pages() const {
    return residence == Residence::kAdmitted || residence == Residence::kReturning;
  }
  // The pass that its next batch runs: the replay before the pass that was asked for.
  ScheduledPass& next_pass() const { return replay ? *replay : *pass; }
  // Rows that are still to run: those of the replay and those of the pass.
  uint32_t rows_wanted() const {
    return (replay ? parked->tokens - kv.tokens() : 0) + (pass ? pass->rows_left() : 0);
  }
  // Pages that the lane must take for them. O(1).
  uint32_t PagesWanted(uint32_t page_tokens) const;
  // Erases operations that have begun from a line that never becomes empty. Runs rarely, so that an
  // operation costs O(1).
  void Compact() {
    if (waiting() > 0 && (head < 64 || head < waiting())) return;
    operations.erase(operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(head));
    head = 0;
    if (operations.empty() && operations.capacity() > kOperationsKept) operations.shrink_to_fit();
  }

 private:
  // Room for this many operations stays allocated when none waits.
  static constexpr size_t kOperationsKept = 256;
};

}  // namespace pie
