// The part of LaneTable that carries a chain from one pass to the next: the chosen token, drafts,
// rules that work ahead, and passes that are in flight ahead of their turn.
#include <algorithm>
#include <utility>

#include "sched/lane_table.h"
#include "sched/make_drafter.h"

namespace pie {

void LaneTable::ContinueChain(Lane& lane, std::vector<Slot> slots, bool worked_ahead) {
  const Chain& chain = *lane.pass->forward.chain;
  if (chain.speculate && !chain.drafter) {
    MakeDrafter(lane, info_.vocab_size, time_,
                [&queue = queue_, id = lane.id] { queue.Push(command::Drafted{id}); });
  }
  const auto chosen = worked_ahead ? std::nullopt : TokenForSlowRules(*lane.pass, slots);
  if (chosen) {
    lane.pass->slots = std::move(slots);
    const Status waits = AwaitRules(lane, Phase::kChecking, {*chosen});
    if (!waits) FailLanded(lane, waits.error());
    return;
  }
  const uint32_t drafts = lane.pass->forward.drafts;
  const Result<bool> follows = FollowOn(*lane.pass, slots, lane.waiting() > 0);
  if (drafts > 0) {
    const uint32_t rejected = std::exchange(lane.pass->rejected, 0);
    drafted_ += drafts;
    confirmed_ += drafts - rejected;
    if (rejected > 0) lane.kv.Truncate(lane.kv.tokens() - rejected);
    lane.kv.Publish();
  }
  if (!follows) {
    EndPass(lane, std::unexpected(follows.error()));
  } else if (!*follows) {
    EndPass(lane, std::move(slots));
  } else {
    lane.place = tickets_.TakePlace();  // last in the queue, like a new pass
    ScheduledPass& pass = *lane.pass;
    if (pass.ahead == 0) return AddDraftsAndBegin(lane);
    lane.kv.SetToken(lane.kv.tokens() - pass.ahead, pass.forward.tokens.front());
    --pass.ahead;
    pass.rows_done = 1;
    states_.StayInFlight(lane);
  }
}

void LaneTable::AddDraftsAndBegin(Lane& lane) {
  if (AddDrafts(*lane.pass)) return Begin(lane);
  states_.AwaitDrafts(lane);
}

void LaneTable::Apply(const command::Drafted& command) {
  Lane* const lane = FindEvenDropped(command.sequence);
  if (lane == nullptr || lane->phase != Phase::kDrafting || !AddDrafts(*lane->pass)) return;
  states_.EndDrafts(*lane);
  Begin(*lane);
  Wake(*lane);
  RunRunnable();
}

Status LaneTable::AwaitRules(Lane& lane, Phase phase, std::vector<uint32_t> chosen) {
  lane.work = ++works_;
  PIE_RETURN_IF_ERROR(lane.pass->forward.rules->WorkAhead(
      std::move(chosen), [&queue = queue_, id = lane.id, work = lane.work] {
        queue.Push(command::WorkedAhead{id, work});
      }));
  states_.AwaitRules(lane, phase);
  return {};
}

void LaneTable::Apply(const command::WorkedAhead& command) {
  Lane* const lane = FindEvenDropped(command.sequence);
  if (lane == nullptr || lane->work != command.work) return;
  if (lane->phase == Phase::kMasking) {
    states_.EndRules(*lane);
    states_.BeginPass(*lane);
  } else if (lane->phase == Phase::kChecking) {
    states_.EndRules(*lane);
    ContinueChain(*lane, std::exchange(lane->pass->slots, {}), true);
  } else {
    return;
  }
  Wake(*lane);
  RunRunnable();
}

void LaneTable::BeginMasked(Lane& lane) {
  const auto& rules = lane.pass->forward.rules;
  if (!rules || !rules->is_slow()) return states_.BeginPass(lane);
  const Status waits = AwaitRules(lane, Phase::kMasking, {});
  if (waits) return;
  // The caller of a first pass counts on all of its rows.
  if (!lane.pass->has_followed()) return BreakPass(lane, waits.error());
  EndPass(lane, std::unexpected(waits.error()));
}

std::optional<std::chrono::nanoseconds> LaneTable::DraftPatience() const {
  // A draft model that is worth waiting for has guessed in this time.
  constexpr int64_t kLeastNs = 2'000'000;
  constexpr int64_t kPasses = 2;
  if (states_.drafting().empty()) return std::nullopt;
  const int64_t most_ns = std::max(kLeastNs, kPasses * time_.last_latency_ns);
  const int64_t late_ns = states_.drafting().front()->ready_since_ns + most_ns;
  return std::chrono::nanoseconds(std::max<int64_t>(late_ns - time_.now_ns, 0));
}

void LaneTable::EndLateDrafts() {
  while (const auto left = DraftPatience()) {
    if (left->count() > 0) return;
    Lane& lane = *states_.drafting().front();
    GiveUpDrafts(*lane.pass);
    states_.EndDrafts(lane);
    Begin(lane);
    Wake(lane);
    RunRunnable();
  }
}

void LaneTable::TakeBackAhead(Lane& lane) {
  const uint32_t ahead = std::exchange(lane.pass->ahead, 0);
  if (ahead == 0) return;
  lane.kv.Truncate(lane.kv.tokens() - ahead);
  flights_.Forget(lane);
}

void LaneTable::EndIdleChain(Lane& lane) {
  // The first pass of a chain runs in any case: its caller counts on its tokens.
  const bool waits = lane.phase == Phase::kReady || lane.phase == Phase::kDrafting ||
                     lane.phase == Phase::kMasking;
  if (!waits || !lane.pass || !lane.pass->has_followed()) return;
  if (lane.residence == Residence::kReturning) return;  // the chain ends after its next pass
  EndPass(lane, std::vector<Slot>());
}

}  // namespace pie
