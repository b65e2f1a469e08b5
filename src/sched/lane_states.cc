#include "sched/lane_states.h"

#include <algorithm>
#include <utility>

namespace pie {

uint32_t Lane::PagesWanted(uint32_t page_tokens) const {
  const uint32_t missing = replay ? 0 : tokens() - kv.tokens();
  if (missing == 0 || kv.tokens() > 0) return kv.PagesNeeded(missing + rows_wanted());
  return static_cast<uint32_t>((uint64_t{missing} + rows_wanted() + page_tokens - 1) / page_tokens);
}

void LaneStates::BeginStored(Lane& lane, std::shared_ptr<const StoredKv> stored) {
  const uint32_t tokens = stored->rows().size();
  lane.parked = Parked{.stored = std::move(stored), .tokens = tokens};
  lane.residence = Residence::kSuspended;
}

void LaneStates::AwaitFork(Lane& lane) {
  lane.phase = Phase::kAwaitsFork;
}

void LaneStates::EndFork(Lane& child, const Lane& parent) {
  child.phase = Phase::kIdle;
  if (parent.broken) {
    child.broken = parent.broken;
  } else if (!child.broken) {
    child.kv = parent.kv.Fork();
    child.parked = parent.parked;
    child.residence = parent.suspended() ? Residence::kSuspended : Residence::kResident;
  }
}

void LaneStates::BeginPass(Lane& lane) {
  cohort_.Back(lane.peer);
  lane.ready_since_ns = time_.now_ns;
  lane.phase = Phase::kReady;
  InsertByPlace(ready_, lane);
}

void LaneStates::BeginRead(Lane& lane) {
  if (lane.suspended() && !lane.parked->stored) return BeginPass(lane);
  lane.phase = Phase::kReading;
  reading_.push_back(&lane);
}

void LaneStates::Board(Lane& lane) {
  PIE_CHECK(lane.phase == Phase::kReady);
  lane.phase = Phase::kBoarded;
}

void LaneStates::Launch(Lane& lane) {
  PIE_CHECK(lane.phase == Phase::kBoarded);
  lane.phase = Phase::kRunning;
}

void LaneStates::Land(Lane& lane) {
  PIE_CHECK(lane.in_batch());
  lane.phase = Phase::kIdle;
  if (lane.residence == Residence::kAdmitted) lane.residence = Residence::kResident;
}

void LaneStates::StayInFlight(Lane& lane) {
  PIE_CHECK(lane.phase == Phase::kIdle && lane.pass);
  lane.phase = Phase::kRunning;
}

void LaneStates::End(Lane& lane) {
  PIE_CHECK(lane.residence != Residence::kReturning);
  LeaveLists(lane);
  lane.phase = Phase::kIdle;
  if (lane.residence == Residence::kAdmitted) lane.residence = Residence::kResident;
}

void LaneStates::Suspend(Lane& lane, std::shared_ptr<const StoredKv> stored) {
  PIE_CHECK(!lane.in_batch());
  if (lane.suspended() || lane.broken) return;
  if (lane.residence == Residence::kReturning) {
    lane.replay.reset();
    if (lane.phase == Phase::kRestoring) {
      std::erase(restoring_, &lane);
      lane.phase = Phase::kReady;
      InsertByPlace(ready_, lane);
    }
  } else if (lane.kv.tokens() > 0) {
    lane.parked = Parked{.stored = std::move(stored), .tokens = lane.kv.tokens()};
    if (!lane.parked->stored) lane.parked->history = lane.kv.history();
  }
  lane.kv.Clear();
  lane.residence = lane.parked ? Residence::kSuspended : Residence::kResident;
  ++suspensions_;
}

void LaneStates::Return(Lane& lane) {
  PIE_CHECK(lane.suspended() && lane.phase == Phase::kReady);
  lane.residence = Residence::kReturning;
  if (lane.parked->stored) {
    LeaveLists(lane);
    lane.phase = Phase::kRestoring;
    InsertByPlace(restoring_, lane);
    return;
  }
  Rows rows = lane.parked->history->From(0);
  const uint32_t found = lane.kv.Adopt(rows.view());
  if (found == rows.size()) return EndReturn(lane);
  rows.RemoveFront(found);
  lane.replay = std::make_unique<ScheduledPass>();
  lane.replay->first_read = rows.size();
  lane.replay->forward.sequence = lane.id;
  lane.replay->forward.tokens = std::move(rows.tokens);
  lane.replay->forward.positions = std::move(rows.positions);
  lane.replay->forward.attention = std::move(rows.masks);
}

void LaneStates::EndReturn(Lane& lane) {
  PIE_CHECK(lane.residence == Residence::kReturning && lane.busy());
  LeaveLists(lane);
  if (lane.replay) replayed_tokens_ += lane.replay->rows();
  lane.replay.reset();
  lane.parked.reset();
  if (lane.pass) {
    lane.residence = Residence::kAdmitted;
    BeginPass(lane);
  } else {
    lane.residence = Residence::kResident;
    BeginRead(lane);
  }
}

void LaneStates::Admit(Lane& lane) {
  PIE_CHECK(lane.residence == Residence::kResident);
  lane.residence = Residence::kAdmitted;
}

void LaneStates::Truncate(Lane& lane, uint32_t tokens) {
  if (!lane.parked) {
    lane.kv.Truncate(tokens);
    return;
  }
  lane.parked->tokens = std::min(lane.parked->tokens, tokens);
  if (lane.parked->history) lane.parked->history->Truncate(lane.parked->tokens);
}

void LaneStates::Break(Lane& lane, Error error) {
  LeaveLists(lane);
  lane.phase = Phase::kIdle;
  lane.residence = Residence::kResident;
  lane.replay.reset();
  lane.parked.reset();
  lane.kv.Clear();
  lane.broken = std::move(error);
}

void LaneStates::Forget(Lane& lane) {
  LeaveLists(lane);
  cohort_.Gone(lane.peer);
}

void LaneStates::InsertByPlace(std::vector<Lane*>& lanes, Lane& lane) {
  // Nearly always at the end: lanes become ready about in the order of their places.
  auto at = lanes.end();
  while (at != lanes.begin() && lane.place < (*(at - 1))->place) --at;
  lanes.insert(at, &lane);
}

void LaneStates::LeaveLists(Lane& lane) {
  if (lane.phase == Phase::kReady) std::erase(ready_, &lane);
  if (lane.phase == Phase::kRestoring) std::erase(restoring_, &lane);
  if (lane.phase == Phase::kReading) std::erase(reading_, &lane);
}

Status LaneStates::CheckIntegrity(std::span<const Lane* const> lanes) const {
  size_t ready = 0;
  size_t restoring = 0;
  size_t reading = 0;
  for (const Lane* lane : lanes) {
    ready += lane->phase == Phase::kReady ? 1 : 0;
    restoring += lane->phase == Phase::kRestoring ? 1 : 0;
    reading += lane->phase == Phase::kReading ? 1 : 0;
    const bool away =
        lane->residence == Residence::kSuspended || lane->residence == Residence::kReturning;
    const bool waits = lane->phase != Phase::kIdle && lane->phase != Phase::kAwaitsFork;
    if (lane->parked.has_value() != away || lane->busy() != waits ||
        (lane->replay && lane->residence != Residence::kReturning) ||
        (lane->suspended() && (lane->in_batch() || lane->kv.pages_held() > 0))) {
      return Fail(Code::kInternal,
                  "lane {} is in phase {}, residence {}, but {} a pass or a read{}{}",
                  lane->id.value, std::to_underlying(lane->phase),
                  std::to_underlying(lane->residence), lane->busy() ? "has" : "has not",
                  lane->parked ? ", has parked tokens" : "", lane->replay ? ", has a replay" : "");
    }
  }
  const auto all_in = [](const std::vector<Lane*>& list, Phase phase) {
    return std::ranges::all_of(list, [&](const Lane* lane) { return lane->phase == phase; });
  };
  if (ready == ready_.size() && restoring == restoring_.size() && reading == reading_.size() &&
      all_in(ready_, Phase::kReady) && all_in(restoring_, Phase::kRestoring) &&
      all_in(reading_, Phase::kReading)) {
    return {};
  }
  return Fail(Code::kInternal,
              "{} lanes are ready, {} restoring, {} reading; the lists hold {}, {} and {}", ready,
              restoring, reading, ready_.size(), restoring_.size(), reading_.size());
}

}  // namespace pie
