#include "sched/lane_states.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "sched/read_cost.h"

namespace pie {
namespace {

// Lanes with masks wait while the replays of others have copies of masks of this size.
constexpr size_t kReplayedMaskBytes = size_t{16} << 20;
// A replay copies and computes rows with masks of this size, and then the next ones.
constexpr size_t kSliceMaskBytes = size_t{1} << 20;
// Replays with smaller masks are not counted as expensive.
constexpr size_t kCheapMaskBytes = size_t{64} << 10;

constexpr auto ByVersion = [](const auto& adapter) { return adapter.first; };

// The versions of adapters that the lane's tokens were computed with, wherever they are.
std::vector<uint64_t> VersionsOf(const Lane& lane) {
  if (!lane.parked) return lane.kv.history().Versions();
  if (lane.parked->history) return lane.parked->history->Versions();
  std::vector<uint64_t> versions;
  for (const RowAdapter& adapter :
       lane.parked->stored->rows().Sub(0, lane.parked->tokens).adapters) {
    if (versions.empty() || versions.back() != adapter.version) versions.push_back(adapter.version);
  }
  return versions;
}

}  // namespace

uint32_t Lane::PagesWanted(uint32_t page_tokens) const {
  const uint32_t missing = replay ? 0 : tokens() - kv.tokens();
  if (missing == 0 || kv.tokens() > 0) return kv.PagesNeeded(missing + rows_wanted());
  return static_cast<uint32_t>((uint64_t{missing} + rows_wanted() + page_tokens - 1) / page_tokens);
}

void LaneStates::BeginStored(Lane& lane, std::shared_ptr<const StoredKv> stored,
                             AdaptersByVersion adapters) {
  const uint32_t tokens = stored->rows().size();
  lane.adapters = std::move(adapters);
  lane.masked = !stored->rows().masks.empty();
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
    child.masked = parent.masked;
    child.kv = parent.kv.Fork();
    child.adapters = parent.adapters;
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

void LaneStates::AwaitDrafts(Lane& lane) {
  PIE_CHECK(lane.phase == Phase::kIdle && lane.pass);
  lane.ready_since_ns = time_.now_ns;
  lane.phase = Phase::kDrafting;
  drafting_.push_back(&lane);
}

void LaneStates::EndDrafts(Lane& lane) {
  PIE_CHECK(lane.phase == Phase::kDrafting);
  LeaveLists(lane);
  lane.phase = Phase::kIdle;
}

void LaneStates::AwaitRules(Lane& lane, Phase phase) {
  PIE_CHECK(lane.phase == Phase::kIdle && lane.pass);
  lane.phase = phase;
}

void LaneStates::EndRules(Lane& lane) {
  PIE_CHECK(lane.phase == Phase::kChecking || lane.phase == Phase::kMasking);
  lane.phase = Phase::kIdle;
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
    EndReplay(lane);
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

bool LaneStates::MayReturn(const Lane& lane) const {
  return !lane.masked || lane.parked->stored || replayed_mask_bytes_ < kReplayedMaskBytes;
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
  lane.kv.Adopt(*lane.parked->history);
  if (lane.kv.tokens() == lane.parked->tokens) return EndReturn(lane);
  MakeReplay(lane);
}

void LaneStates::MakeReplay(Lane& lane) {
  const History& history = *lane.parked->history;
  const uint32_t first = lane.kv.tokens();
  uint32_t count = history.RunFrom(first);
  if (lane.masked) count = std::min(count, history.RowsWithin(first, kSliceMaskBytes));
  Rows rows = history.From(first, count);
  lane.replay = std::make_unique<ScheduledPass>();
  lane.replay->first_read = count;
  Forward& forward = lane.replay->forward;
  forward.sequence = lane.id;
  forward.adapter = rows.view().adapter(0);
  forward.tokens = std::move(rows.tokens);
  forward.positions = std::move(rows.positions);
  forward.attention = std::move(rows.masks);
  for (const Brle& mask : forward.attention) {
    lane.replay_mask_bytes += mask.size() * sizeof(uint32_t);
  }
  replayed_mask_bytes_ += lane.replay_mask_bytes;
  if (lane.replay_mask_bytes > kCheapMaskBytes) lane.replay->read_costs = MaskCosts(forward);
  if (forward.adapter.version == 0) return;
  const auto kept = std::ranges::find(lane.adapters, forward.adapter.version, ByVersion);
  PIE_CHECK(kept != lane.adapters.end());
  forward.adapter_weights = kept->second;
}

void LaneStates::EndReplay(Lane& lane) {
  lane.replay.reset();
  replayed_mask_bytes_ -= std::exchange(lane.replay_mask_bytes, 0);
}

Status LaneStates::KeepAdapter(Lane& lane) {
  constexpr size_t kUnchecked = 8;
  const Forward& forward = lane.pass->forward;
  if (!forward.adapter_weights) return {};
  const uint64_t version = forward.adapter.version;
  if (std::ranges::find(lane.adapters, version, ByVersion) != lane.adapters.end()) return {};
  if (lane.adapters.size() >= kUnchecked) {
    const std::vector<uint64_t> needed = VersionsOf(lane);
    std::erase_if(lane.adapters, [&](const auto& kept) {
      return std::ranges::find(needed, kept.first) == needed.end();
    });
  }
  if (lane.adapters.size() >= limits::kAdaptersPerSequence) {
    return Fail(Code::kExhausted,
                "the context has tokens of {} versions of adapters, which is the limit: use a new "
                "context",
                lane.adapters.size());
  }
  lane.adapters.emplace_back(version, forward.adapter_weights);
  return {};
}

void LaneStates::EndReturn(Lane& lane) {
  PIE_CHECK(lane.residence == Residence::kReturning && lane.busy());
  LeaveLists(lane);
  if (lane.replay) replayed_tokens_ += lane.replay->rows();
  EndReplay(lane);
  if (lane.kv.tokens() < lane.parked->tokens) {  // with another adapter, or many masks
    MakeReplay(lane);
    return BeginPass(lane);
  }
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
  if (tokens == 0) {
    lane.adapters.clear();
    lane.masked = false;
  }
  if (!lane.parked) {
    lane.kv.Truncate(tokens);
    return;
  }
  lane.parked->tokens = std::min(lane.parked->tokens, tokens);
  if (lane.parked->history) lane.parked->history->Truncate(lane.parked->tokens);
}

void LaneStates::MarkBroken(Lane& lane, Error error) {
  LeaveLists(lane);
  lane.phase = Phase::kIdle;
  lane.residence = Residence::kResident;
  EndReplay(lane);
  lane.parked.reset();
  lane.kv.Clear();
  lane.broken = std::move(error);
}

void LaneStates::Forget(Lane& lane) {
  LeaveLists(lane);
  EndReplay(lane);
  cohort_.Gone(lane.peer);
}

void LaneStates::InsertByPlace(std::vector<Lane*>& lanes, Lane& lane) {
  // Nearly always at the end: lanes become ready about in the order of their places.
  auto at = lanes.end();
  if (!lanes.empty() && lane.place < lanes.back()->place) {
    at = std::ranges::upper_bound(lanes, lane.place, {}, &Lane::place);
  }
  lanes.insert(at, &lane);
}

void LaneStates::EraseByPlace(std::vector<Lane*>& lanes, const Lane& lane) {
  auto at = std::ranges::lower_bound(lanes, lane.place, {}, &Lane::place);
  while (at != lanes.end() && *at != &lane) ++at;  // few have the same place
  if (at != lanes.end()) lanes.erase(at);
}

void LaneStates::LeaveLists(Lane& lane) {
  if (lane.phase == Phase::kReady) EraseByPlace(ready_, lane);
  if (lane.phase == Phase::kRestoring) EraseByPlace(restoring_, lane);
  if (lane.phase == Phase::kReading) std::erase(reading_, &lane);
  if (lane.phase == Phase::kDrafting) std::erase(drafting_, &lane);
}

Status LaneStates::CheckIntegrity(std::span<const Lane* const> lanes,
                                  const Interruption& interruption) const {
  size_t ready = 0;
  size_t restoring = 0;
  size_t reading = 0;
  size_t drafting = 0;
  for (const Lane* lane : lanes) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    ready += lane->phase == Phase::kReady ? 1 : 0;
    restoring += lane->phase == Phase::kRestoring ? 1 : 0;
    reading += lane->phase == Phase::kReading ? 1 : 0;
    drafting += lane->phase == Phase::kDrafting ? 1 : 0;
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
      drafting == drafting_.size() && all_in(drafting_, Phase::kDrafting) &&
      all_in(ready_, Phase::kReady) && all_in(restoring_, Phase::kRestoring) &&
      all_in(reading_, Phase::kReading)) {
    return {};
  }
  return Fail(Code::kInternal,
              "{} lanes are ready, {} restoring, {} reading, {} drafting; the lists hold {}, {}, "
              "{} and {}",
              ready, restoring, reading, drafting, ready_.size(), restoring_.size(),
              reading_.size(), drafting_.size());
}

}  // namespace pie
