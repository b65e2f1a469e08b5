// LaneTable: every sequence with the operations that wait on it, each in its turn.
//
// A lane is a sequence's line: passes, forks and truncations happen in the order in which they were
// asked for. A fork's child exists at once, so that commands for it can line up, and starts when
// the parent's line reaches the fork. A lane whose pass failed is broken: it holds no pages, and
// everything behind the failure (forks included) fails with the same error.
//
// A dropped lane goes away with all that waits in it, except what a live fork still waits for: that
// runs, unseen, until the fork has what it was promised.
//
// Owner: the step thread. `done` callbacks are called from here; they may push commands but cannot
// reach the table.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "base/ids.h"
#include "base/result.h"
#include "kv/prefix_index.h"
#include "kv/sequence.h"
#include "sched/cohort.h"
#include "sched/market.h"
#include "sched/pass.h"
#include "sched/queue.h"

namespace pie {

struct Operation {
  enum class Kind : uint8_t { kPass, kFork, kTruncate, kRead, kSuspend };
  Kind kind = Kind::kPass;
  uint32_t tokens = 0;                // kTruncate
  uint64_t ticket = 0;                // order of arrival
  SequenceId child = {};              // kFork
  std::unique_ptr<Pass> pass = {};    // kPass
  std::unique_ptr<KvRead> read = {};  // kRead
};

// What a lane must have in its pages before its next pass can run.
struct Parked {
  std::shared_ptr<const StoredKv> stored;  // null: it has to be computed again
  std::optional<History> history;          // then: what it was fed
  uint32_t tokens = 0;                     // the first so many of it
};

struct Lane {
  Lane(SequenceId lane_id, Sequence sequence) : id(lane_id), kv(std::move(sequence)) {}

  const SequenceId id;
  Sequence kv;
  AccountId account = {};             // who pays for its pages
  std::optional<Credits> bid;         // for a page and a tick; without one, the default
  std::optional<Parked> parked;       // its tokens are elsewhere, or on their way back from there
  std::unique_ptr<Pass> current;      // at the head of the line: waiting for a batch, or in one
  std::unique_ptr<Pass> deferred;     // the current pass, while a replay is in its place
  bool untouchable = false;           // was restored, and has not moved since
  int64_t ready_since_ns = 0;         // since when its current pass waits for a batch
  bool in_batch = false;              // of the batch that is built, or runs
  bool on_device = false;             // of the batch that runs
  bool awaits_fork = false;           // the parent's line has not reached it yet
  bool dropped = false;               // nobody knows it by its id any more
  bool runnable = false;              // in LaneTable's list of lanes to look at
  Cohort::Peer peer;                  // for the batch policy
  std::optional<Error> broken;        // what every later pass fails with
  std::optional<Error> closed;        // the line is too long: newcomers fail with this
  std::vector<Operation> operations;  // [head, end) wait; the vector is reused
  size_t head = 0;

  std::unique_ptr<KvRead> reading;  // at the head of the line
  uint64_t reading_ticket = 0;

  uint32_t tokens() const { return parked ? parked->tokens : kv.tokens(); }
  size_t waiting() const { return operations.size() - head; }
  bool replaying() const { return deferred != nullptr; }
  bool suspended() const { return parked && !replaying() && !untouchable; }
  // Rows that its current pass still has to run, after what has to be replayed.
  uint32_t rows_wanted() const {
    return current->rows_left() + (deferred ? deferred->rows_left() : 0);
  }
  // Pages that it must take for that. O(1).
  uint32_t PagesWanted(uint32_t page_tokens) const;
  void Compact() {  // of a line that never gets empty, the spent part goes now and then
    if (waiting() > 0 && (head < 64 || head < waiting())) return;
    operations.erase(operations.begin(), operations.begin() + static_cast<std::ptrdiff_t>(head));
    head = 0;
  }
};

class LaneTable {
 public:
  LaneTable(const BackendInfo& info, PrefixIndex& index) : info_(info), index_(index) {}

  void Apply(Command command);

  // Lanes whose current pass waits for a batch, oldest pass first. The step loop removes those that
  // it takes, and sets in_batch.
  std::vector<Lane*>& ready() { return ready_; }

  // Lanes that get their stored tokens back, oldest first; and those that are read.
  std::vector<Lane*>& restoring() { return restoring_; }
  std::vector<Lane*>& reading() { return reading_; }
  // The lane's tokens are in its pages again.
  void EndRestore(Lane& lane);
  void EndRead(Lane& lane, Result<KvContent> content);

  // The lane's chunk ran. Ends its pass if that was the last one, else it is ready again.
  void Settle(Lane& lane, std::vector<Slot> slots, uint32_t first_row, uint32_t rows);
  // All of the lane's pass was in memory: it ends without a batch.
  void EndAdopted(Lane& lane);
  // Takes all pages of a lane that is in no batch. It keeps its place and what it was fed.
  // `swapped` is what was made of them elsewhere, if anything.
  void Suspend(Lane& lane, std::shared_ptr<const StoredKv> swapped = nullptr);
  // A suspended lane whose pass is ready comes back: with the pages that are still in memory, and
  // with a replay of the rest before its pass. Room for both has to be there.
  void Restore(Lane& lane);
  // The lane's pass failed, in a batch or waiting for one.
  void Break(Lane& lane, const Error& error);

  template <class Fn>
  void ForEach(Fn&& fn) {
    for (auto& [id, lane] : lanes_) fn(*lane);
  }
  const Lane* Get(SequenceId id) const { return FindEvenDropped(id); }  // null if there is none
  uint64_t suspensions() const { return suspensions_; }
  uint64_t replayed_tokens() const { return replayed_tokens_; }
  // Who is about to come back. The step loop tells it the time.
  Cohort& cohort() { return cohort_; }

  size_t sequences() const { return lanes_.size(); }
  uint64_t passes() const { return passes_; }  // asked for, not ended
  // Sequences that hold pages.
  size_t holders() const;
  // Signals the fences behind which nothing is left. Call when stats are up to date.
  void SignalFences();
  Status CheckIntegrity() const;

 private:
  struct PendingFence {
    std::shared_ptr<Fence> fence;
    uint64_t ticket = 0;
    uint64_t operations_left = 0;  // that came before it
  };

  Lane* Find(SequenceId id) const;             // null if unknown or dropped
  Lane* FindEvenDropped(SequenceId id) const;  // null if nobody needs it any more
  Lane& Add(SequenceId id, const CacheSalt& salt);
  bool Admit(Lane& lane);  // false: its line is closed
  void Line(Lane& lane, Operation operation);
  void Execute(Lane* lane, std::unique_ptr<Pass> pass);
  void Fork(Lane* parent, SequenceId child_id);
  void Drop(Lane& lane);
  void Erase(Lane& lane);
  static void InsertByAge(std::vector<Lane*>& lanes, Lane& lane);
  void MakeReady(Lane& lane);
  void Forget(Lane& lane);  // in all lists
  void EndReplay(Lane& lane);
  // It has its pages again: its pass can run, or what waited for nothing else.
  void GoOn(Lane& lane);
  void EndPass(Lane& lane, Result<std::vector<Slot>> result);
  // The lane's pass has run and carries a chain: its next pass is ready, or the chain ends.
  void Follow(Lane& lane, std::vector<Slot> slots);
  // A chain between two passes ends where it is.
  void EndIdleChain(Lane& lane);
  void CountEnded(uint64_t ticket);

  // Lanes are looked at from a list, not by recursion: a guest can queue forks of forks of forks.
  void Wake(Lane& lane);
  void RunRunnable();
  void Advance(Lane& lane);
  void Begin(Lane& lane);
  void Materialise(Lane& parent, SequenceId child_id);

  const BackendInfo& info_;
  PrefixIndex& index_;
  std::unordered_map<SequenceId, std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> ready_;
  std::vector<Lane*> restoring_;
  std::vector<Lane*> reading_;
  std::vector<Lane*> runnable_;
  std::vector<PendingFence> fences_;
  Cohort cohort_;
  uint64_t next_ticket_ = 0;
  uint64_t operations_ = 0;  // in lines or current
  uint64_t passes_ = 0;
  uint64_t suspensions_ = 0;
  uint64_t replayed_tokens_ = 0;
};

}  // namespace pie
