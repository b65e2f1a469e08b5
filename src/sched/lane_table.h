// LaneTable: every sequence with the operations that wait on it, each in the order of its arrival.
//
// A lane is a sequence's line: passes, forks and truncations happen in the order in which they were
// asked for. A fork's child exists at once, so that commands for it can line up, and starts when
// the parent's line reaches the fork. A lane whose pass failed is broken: it holds no pages, and
// everything after the failure (forks included) fails with the same error.
//
// A dropped lane goes away with the operations that wait in it, except those that a live fork still
// needs: they run, and no callback is called, until the fork has the tokens it was promised.
//
// Owner: the step thread. `done` callbacks are called from here; they may push commands but cannot
// reach the table.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "base/ids.h"
#include "base/result.h"
#include "kv/prefix_index.h"
#include "sched/command.h"
#include "sched/flights.h"
#include "sched/lane.h"
#include "sched/lane_states.h"
#include "sched/queue.h"
#include "sched/step_time.h"
#include "sched/tickets.h"

namespace pie {

class LaneTable {
 public:
  // Draft models answer through the queue.
  LaneTable(const BackendInfo& info, PrefixIndex& index, Flights& flights, const StepTime& time,
            CommandQueue& queue)
      : info_(info), index_(index), flights_(flights), time_(time), queue_(queue), states_(time) {}

  void Apply(command::Create&& command);
  void Apply(command::Fork&& command);
  void Apply(const command::Truncate& command);
  void Apply(const command::Suspend& command);
  void Apply(command::Drop&& command);
  void Apply(command::Execute&& command);
  void Apply(command::Read&& command);
  void Apply(const command::Own& command);
  void Apply(const command::Drafted& command);
  void Apply(const command::WorkedAhead& command);
  void Apply(command::Await&& command);
  void Bid(SequenceId sequence, const BidPlan& bids);

  // The states of the lanes, and the lists of lanes that wait for a batch or for pages.
  LaneStates& states() { return states_; }
  const LaneStates& states() const { return states_; }

  // The lane's chunk ran. Ends its pass if that was the last one; else the lane is ready again.
  void Settle(Lane& lane, std::vector<Slot> slots, uint32_t first_row, uint32_t rows);
  // All rows of a ready lane's pass were in memory: it ends without a batch. The caller has taken
  // the lane out of ready().
  void EndAdopted(Lane& lane);
  void EndRead(Lane& lane, Result<KvContent> content);
  // The lane's rows ran, but no token could be chosen. Its pass fails, and its sequence stays
  // whole.
  void FailChoice(Lane& lane, const Error& error);
  // The batch failed for the lane. If it failed because a mask was late, the chunk of these rows
  // runs again in a later batch. Else returns false.
  bool RunAgain(Lane& lane, uint32_t first_row, uint32_t rows);
  // The lane's pass or read failed, in a batch or waiting for one. Ends it, and breaks the lane.
  void Break(Lane& lane, const Error& error);

  // Chains that have waited for drafts for too long go on without them.
  void EndLateDrafts();
  // How long the first of the other such chains may still wait. Nullopt: there are none.
  std::optional<std::chrono::nanoseconds> DraftPatience() const;

  // Every pass and read that has begun fails, whatever state it is in.
  void BreakAll(const Error& error);
  // Fails passes and reads that began to wait for a batch at this time or earlier, but no more than
  // `most` of them. Returns whether none is left.
  bool BreakWaiting(int64_t since_ns, size_t most, const Error& error);

  template <class Fn>
  void ForEach(Fn&& fn) {
    for (auto& [id, lane] : lanes_) fn(*lane);
  }
  const Lane* Get(SequenceId id) const { return FindEvenDropped(id); }  // null if there is none

  size_t sequences() const { return lanes_.size(); }
  uint64_t passes() const { return passes_; }        // asked for, not ended
  uint64_t drafted() const { return drafted_; }      // tokens that were guessed
  uint64_t confirmed() const { return confirmed_; }  // those of them that were right
  // Sequences that hold pages.
  size_t holders() const;
  // Signals the fences before which every operation has ended. Call when stats are up to date.
  void SignalFences() { tickets_.SignalFences(); }
  Status CheckIntegrity(const Interruption& interruption = {}) const;

 private:
  Lane* Find(SequenceId id) const;             // null if unknown or dropped
  Lane* FindEvenDropped(SequenceId id) const;  // null if it is no longer needed
  Lane& Add(SequenceId id, const CacheSalt& salt);
  bool Admit(Lane& lane);  // false: its line is closed
  void Line(Lane& lane, Operation operation);
  // Takes the last operation out of the lane's line.
  void PopLast(Lane& lane);
  // Takes forks whose children are gone from the end of the lane's line, so that a line that cannot
  // go on does not grow by forks that are dropped at once.
  void PopGoneForks(Lane& lane);
  // If a truncation or suspension of this kind waits at the end of the lane's line, makes it stand
  // for the new one too, and returns true. Of two truncations, the shorter length counts.
  bool Merge(Lane& lane, Operation::Kind kind, uint32_t tokens = 0);
  void Erase(Lane& lane);
  // Ends the lane's pass: tells the caller, and leaves the lane idle.
  void EndPass(Lane& lane, Result<std::vector<Slot>> result);
  // Ends the lane's pass with this error, and breaks the lane.
  void BreakPass(Lane& lane, const Error& error);
  // The lane's pass has run and carries a chain: its next pass is ready, or the chain ends. Waits
  // before that for slow rules, unless they have worked ahead.
  void ContinueChain(Lane& lane, std::vector<Slot> slots, bool worked_ahead = false);
  // Has the rules of the lane's pass work ahead. The lane waits in `phase`.
  Status AwaitRules(Lane& lane, Phase phase, std::vector<uint32_t> chosen);
  // The lane's pass waits for a batch, and before that for the masks of slow rules.
  void BeginMasked(Lane& lane);
  // No token could be chosen in a pass that has just run.
  void FailLanded(Lane& lane, const Error& error);
  // The next pass of the lane's chain waits for its drafts, or for a batch.
  void AddDraftsAndBegin(Lane& lane);
  // Ends a chain that is between two passes.
  void EndIdleChain(Lane& lane);
  // Discards the chain's passes that are in flight after the lane's current one: takes back the
  // rows that they write, and ignores their results.
  void TakeBackAhead(Lane& lane);
  // Destroys a pass that is over, once no batch in flight points to it.
  void Destroy(std::unique_ptr<ScheduledPass> pass);

  // Lanes are looked at from a list, not by recursion: a guest can queue forks of forks of forks.
  void Wake(Lane& lane);
  void RunRunnable();
  void Advance(Lane& lane);
  void Begin(Lane& lane);
  // Makes the last row of the lane the first row of its pass.
  Status TakeLastRow(Lane& lane);
  // Returns why the lane's pass can never run, or nothing if it can.
  std::optional<Error> FaultOf(const Lane& lane) const;

  const BackendInfo& info_;
  PrefixIndex& index_;
  Flights& flights_;
  const StepTime& time_;
  CommandQueue& queue_;
  LaneStates states_;
  std::unordered_map<SequenceId, std::unique_ptr<Lane>> lanes_;
  std::vector<Lane*> runnable_;
  Tickets tickets_;     // operations that wait on lanes or have begun
  uint64_t works_ = 0;  // pieces of work of slow rules that lanes have waited for
  uint64_t passes_ = 0;
  uint64_t drafted_ = 0;
  uint64_t confirmed_ = 0;
};

}  // namespace pie
