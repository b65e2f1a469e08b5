// LaneStates: the states of all lanes, every transition between them, and the lists of lanes that
// wait for something. No other code writes a lane's phase or residence.
//
//   phase        kAwaitsFork → kIdle → kReady → kBoarded → kRunning → kReady (the next chunk, or
//                the next pass of a chain), kRunning (a pass of a chain that is in flight already)
//                or kIdle. A chain that waits for drafts goes kRunning → kDrafting → kReady. With
//                slow rules, a chain goes kRunning → kChecking → kMasking → kReady, and other
//                passes go kIdle → kMasking → kReady. A read goes kIdle → kReading → kIdle. A lane
//                whose pages are stored goes kReady → kRestoring → kReady.
//   residence    kResident → kSuspended → kReturning → kAdmitted → kResident. A read of a
//                suspended lane whose tokens must be computed again waits in kReady, like a pass,
//                until the lane has returned.
//
// A lane that lost its pages keeps its place, its line and what it was fed. It comes back with the
// pages that are still in memory, and computes the rest again, or reads it from where it is stored.
//
// Owner: the step thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/interruption.h"
#include "sched/cohort.h"
#include "sched/lane.h"
#include "sched/step_time.h"

namespace pie {

class LaneStates {
 public:
  explicit LaneStates(const StepTime& time) : time_(time), cohort_(time) {}

  // Lanes that wait for a batch, the lowest place first. The step loop takes out those that it
  // boards.
  std::vector<Lane*>& ready() { return ready_; }
  const std::vector<Lane*>& ready() const { return ready_; }
  // Lanes whose stored pages are written to the device, the lowest place first.
  const std::vector<Lane*>& restoring() const { return restoring_; }
  const std::vector<Lane*>& reading() const { return reading_; }
  // Lanes whose chains wait for drafts, the one that has waited longest first.
  const std::vector<Lane*>& drafting() const { return drafting_; }
  Cohort& cohort() { return cohort_; }
  const Cohort& cohort() const { return cohort_; }
  uint64_t suspensions() const { return suspensions_; }
  uint64_t replayed_tokens() const { return replayed_tokens_; }

  // A new lane with stored tokens, and the adapters that they were computed with.
  void BeginStored(Lane& lane, std::shared_ptr<const StoredKv> stored, AdaptersByVersion adapters);
  // A new lane that waits for its parent, and the moment at which the parent has reached the fork.
  void AwaitFork(Lane& lane);
  void EndFork(Lane& child, const Lane& parent);

  // The lane's pass, or its next chunk, begins to wait for a batch.
  void BeginPass(Lane& lane);
  // The lane's read waits for the next moment between two batches. If the lane's tokens have to be
  // computed again, it waits in ready() until they are.
  void BeginRead(Lane& lane);
  // The step loop has taken the lane out of ready(), into the batch being built.
  void Board(Lane& lane);
  // That batch has been submitted.
  void Launch(Lane& lane);
  // The lane's chunk has run. The caller says what is next.
  void Land(Lane& lane);
  // The lane's next pass is in flight already.
  void StayInFlight(Lane& lane);
  // The lane's next pass waits for drafts, and the moment at which it has them.
  void AwaitDrafts(Lane& lane);
  void EndDrafts(Lane& lane);
  // The lane waits in `phase`, kChecking or kMasking, for its rules to work ahead, and the moment
  // at which they have.
  void AwaitRules(Lane& lane, Phase phase);
  void EndRules(Lane& lane);
  // The pass or the read of the lane is over.
  void End(Lane& lane);

  // Takes all pages of a lane that is in no batch. `stored` is the copy of its pages that was kept,
  // if any.
  void Suspend(Lane& lane, std::shared_ptr<const StoredKv> stored = nullptr);
  // Whether a suspended lane may come back now. A replay has a copy of the masks of its rows, which
  // may be large, so few lanes with masks are replayed at the same time.
  bool MayReturn(const Lane& lane) const;
  // A suspended lane comes back. There must be room for what is parked and for its pass.
  void Return(Lane& lane);
  // The last chunk of a lane's replay has run, or the last of its stored pages was written. Its
  // next replay, its pass or its read follows.
  void EndReturn(Lane& lane);
  // The lane's pass begins: its adapter stays in memory as long as the lane may have to compute its
  // tokens again. Adapters that no token of the lane needs any more go once there are many. Fails
  // if the lane needs too many: each fork has a list of them too.
  static Status KeepAdapter(Lane& lane);
  // A lane that has no pages may take some, and keeps them until some of its pass has run.
  void Admit(Lane& lane);
  void Truncate(Lane& lane, uint32_t tokens);

  // The lane is broken from now on: it holds no pages, and nothing is parked.
  void MarkBroken(Lane& lane, Error error);
  // The lane is about to be destroyed.
  void Forget(Lane& lane);

  // Do the lists, and the fields of every lane, agree with the lanes' states? `lanes` is all.
  Status CheckIntegrity(std::span<const Lane* const> lanes, const Interruption& interruption) const;

 private:
  // Makes the replay of the rows after those that the lane has, up to the first of another adapter,
  // and with masks of a limited size.
  void MakeReplay(Lane& lane);
  void EndReplay(Lane& lane);
  static void InsertByPlace(std::vector<Lane*>& lanes, Lane& lane);
  static void EraseByPlace(std::vector<Lane*>& lanes, const Lane& lane);
  void LeaveLists(Lane& lane);

  const StepTime& time_;
  Cohort cohort_;
  std::vector<Lane*> ready_;
  std::vector<Lane*> restoring_;
  std::vector<Lane*> reading_;
  std::vector<Lane*> drafting_;
  uint64_t suspensions_ = 0;
  uint64_t replayed_tokens_ = 0;
  size_t replayed_mask_bytes_ = 0;  // of all replays
};

}  // namespace pie
