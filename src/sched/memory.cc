#include "sched/memory.h"

#include <algorithm>

namespace pie {
namespace {

// After serving an overdue lane for t, wait 4 t before evicting for another.
constexpr int64_t kOthersShare = 4;
// A lane within the share of its user waits this long for pages of a user who holds more than
// theirs.
constexpr int64_t kShareWaitNs = 20'000'000;
// After waiting this many times the overdue limit, a lane is ranked as if its user held no more
// than their share.
constexpr int64_t kPatience = 5;

// Does the lane have pages, or has it been promised some?
bool IsIn(const Lane& lane) {
  return lane.kv.pages_held() > 0 || lane.keeps_pages();
}

}  // namespace

bool MayEnter(const MemoryOptions& options, uint64_t pages_total, uint64_t pages_used,
              uint64_t pages_wanted, uint64_t endowed_pages_in) {
  const auto total = static_cast<double>(pages_total);
  if (static_cast<double>(pages_used + pages_wanted) <= options.restore_pause_at * total) {
    return true;
  }
  return pages_used + pages_wanted <= pages_total &&
         static_cast<double>(endowed_pages_in + options.endowment_pages) <=
             options.oversubscription * total;
}

Credits Memory::BidOf(const Lane& lane) const {
  BidProgress progress{.steps = lane.steps, .steps_at_expectation = lane.steps_at_expectation};
  if (lane.pass) {
    progress.pass_bid = lane.pass->forward.bid;
    if (const auto& chain = lane.pass->forward.chain) {
      progress.chain_steps = chain->max_tokens - lane.pass->chained;
    }
  }
  return pie::BidOf(lane.bids, progress,
                    {.balance = market_.balance(lane.account),
                     .dividend = market_.dividend(lane.account),
                     .pages = (lane.tokens() + info_.page_tokens - 1) / info_.page_tokens,
                     .page_tokens = info_.page_tokens});
}

Standing Memory::StandingOf(const Lane& lane) const {
  const bool asks = lane.busy() || lane.waiting() > 0;
  const bool waits = lane.phase == Phase::kReady || lane.phase == Phase::kRestoring;
  const int64_t waited_ns = waits ? time_.now_ns - lane.ready_since_ns : 0;
  const int64_t overdue_ns = options_.overdue_ms * 1'000'000LL;
  return {
      .idle = !asks && !states_.cohort().JustWoken(lane.peer),
      .over_share = waited_ns <= kPatience * overdue_ns && market_.over_share(lane.account),
      .overdue = waits && waited_ns > overdue_ns,
      .defaulted = market_.defaulted(lane.account),
      .bid = BidOf(lane),
      .age = lane.id.value,
  };
}

bool Memory::Select(std::vector<bool>& allowed) {
  const std::vector<Lane*>& ready = states_.ready();
  looks_ += ready.size();
  uint64_t growth = 0;    // pages wanted by lanes that have pages
  uint64_t entrance = 0;  // pages wanted by the other lanes
  bool suspended = false;
  for (const Lane* lane : ready) {
    const uint32_t wanted = lane->PagesWanted(info_.page_tokens);
    (IsIn(*lane) ? growth : entrance) += wanted;
    suspended |= lane->suspended();
  }
  const uint64_t used = pool_.pages_used();
  if (!suspended && used + growth + entrance <= Mark()) {
    contended_ = false;
    return false;
  }
  candidates_.clear();
  for (Lane* lane : ready) {
    if (!IsIn(*lane)) candidates_.emplace_back(StandingOf(*lane), lane);
  }
  std::ranges::sort(candidates_, RestoredBefore, [](const auto& c) { return c.first; });
  std::optional<std::unordered_set<uint64_t>> in;  // accounts that have pages, once they matter
  contended_ = used + growth > pool_.pages_total();
  uint64_t taken = used + growth;
  std::unordered_set<const Lane*> refused;
  for (const auto& [standing, lane] : candidates_) {
    // Its turn comes when the replays of others have ended. It does not hold up other lanes.
    if (lane->suspended() && !states_.MayReturn(*lane)) continue;
    const uint32_t wanted = lane->PagesWanted(info_.page_tokens);
    bool enters = refused.empty();
    if (enters && !lane->suspended() && !in) in = AccountsIn();
    if (enters && (lane->suspended() || in->contains(lane->account.value))) {
      enters = taken + wanted <= Mark();
    } else if (enters) {
      enters = MayEnter(options_, pool_.pages_total(), taken, wanted,
                        in->size() * uint64_t{options_.endowment_pages});
    }
    if (!enters) {
      refused.insert(lane);
      contended_ = true;
      continue;
    }
    taken += wanted;
    if (in) in->insert(lane->account.value);
    if (lane->suspended()) states_.Return(*lane);
  }
  allowed.resize(ready.size());  // a restore may have changed the list
  for (size_t i = 0; i < ready.size(); ++i) {
    allowed[i] = !refused.contains(ready[i]) && !ready[i]->suspended();
  }
  return true;
}

std::unordered_set<uint64_t> Memory::AccountsIn() {
  std::unordered_set<uint64_t> in;
  lanes_.ForEach([&](const Lane& lane) {
    ++looks_;
    if (IsIn(lane) && lane.account.value != 0) in.insert(lane.account.value);
  });
  return in;
}

bool Memory::MakeRoom(bool device_idle) {
  const std::vector<Lane*>& ready = states_.ready();
  if (ready.empty()) return false;
  looks_ += ready.size();
  contended_ = true;
  // The best of the lanes that wait. A lane that is in comes before one that is not, unless that
  // one is overdue.
  Lane* best = nullptr;
  Standing best_standing;
  const auto outranks = [](const Lane& a, const Standing& as, const Lane& b, const Standing& bs) {
    if (as.over_share != bs.over_share && IsIn(a) == IsIn(b)) return bs.over_share;
    const bool a_first = as.overdue || IsIn(a);
    const bool b_first = bs.overdue || IsIn(b);
    return a_first != b_first ? a_first : RestoredBefore(as, bs);
  };
  for (Lane* lane : ready) {
    if (!device_idle && lane->suspended() && !states_.MayReturn(*lane)) continue;
    const Standing standing = StandingOf(*lane);
    if (best == nullptr || outranks(*lane, standing, *best, best_standing)) {
      best = lane;
      best_standing = standing;
    }
  }
  if (best == nullptr) return false;
  const uint64_t wanted = best->PagesWanted(info_.page_tokens);
  const bool is_in = IsIn(*best);
  // A lane that enters in its turn must leave the room above the mark free.
  const uint64_t spare =
      is_in || best_standing.overdue || device_idle
          ? 0
          : pool_.pages_total() - std::min<uint64_t>(Mark(), pool_.pages_total());
  const bool waits_in_line = !is_in && !best_standing.overdue;
  const Reach reach = waits_in_line ? Reach::kIdle : Reach::kLower;
  bool freed = Evict(*best, wanted + spare, device_idle ? Reach::kAny : reach);
  if (!device_idle) return freed;
  if (wanted > pool_.pages_free() && best->kv.pages_held() > 0) {
    // No page is free even for the copy of the lane's partial page, so the lane computes all of its
    // tokens again.
    states_.Suspend(*best);
    freed = true;
  }
  if (best->suspended() && best->PagesWanted(info_.page_tokens) <= pool_.pages_free()) {
    states_.Return(*best);
    freed = true;
  } else if (!best->suspended() && !is_in) {
    states_.Admit(*best);  // it may now take pages above the mark too
    freed = true;
  }
  return freed;
}

bool Memory::IsServed(const Lane& lane) const {
  return served_ && lane.id == served_->lane && lane.busy() && lane.place == served_->place;
}

// True if the lane has waited long and its account stays within its share. Such lanes are served at
// any time.
bool Memory::IsServedByShare(const Lane& lane) const {
  return market_.any_over_share() && time_.now_ns - lane.ready_since_ns > kShareWaitNs &&
         market_.WithinShare(lane.account, lane.PagesWanted(info_.page_tokens));
}

Lane* Memory::Overdue() {
  if (!contended_) return nullptr;
  looks_ += states_.ready().size();
  if (served_) {
    const Lane* const served = lanes_.Get(served_->lane);
    if (served != nullptr && IsServed(*served)) return nullptr;
    const int64_t pause_ns = kOthersShare * (time_.now_ns - served_->since_ns);
    const bool by_share = served_->by_share;
    served_.reset();
    if (!by_share) {
      next_served_ns_ =
          time_.now_ns + std::max<int64_t>(pause_ns, options_.overdue_ms * 1'000'000LL);
    }
  }
  const bool any = time_.now_ns >= next_served_ns_;
  if (!any && !market_.any_over_share()) return nullptr;
  Lane* best = nullptr;
  Standing best_standing;
  for (Lane* lane : states_.ready()) {
    const Standing standing = StandingOf(*lane);
    if (lane->PagesWanted(info_.page_tokens) == 0) continue;
    if (!(any && standing.overdue) && !IsServedByShare(*lane)) continue;
    if (best != nullptr && !RestoredBefore(standing, best_standing)) continue;
    best = lane;
    best_standing = standing;
  }
  return best;
}

bool Memory::MakeRoomFor(Lane& overdue) {
  const uint32_t wanted = overdue.PagesWanted(info_.page_tokens);
  bool by_share = IsServedByShare(overdue);
  if (by_share) {
    Evict(overdue, wanted, Reach::kOverShare);
    by_share = pool_.pages_free() >= wanted;
  }
  if (by_share) {
    market_.Grant(overdue.account, wanted);
  } else if (time_.now_ns >= next_served_ns_ && StandingOf(overdue).overdue) {
    Evict(overdue, wanted, Reach::kLower);
  }
  if (pool_.pages_free() < wanted) return false;
  served_ = Served{
      .lane = overdue.id, .place = overdue.place, .since_ns = time_.now_ns, .by_share = by_share};
  return true;
}

bool Memory::Evict(const Lane& waiter, uint64_t free_wanted, Reach reach) {
  if (pool_.pages_free() >= free_wanted) return false;
  const Standing standing = StandingOf(waiter);
  candidates_.clear();
  uint64_t most = pool_.pages_free();
  lanes_.ForEach([&](Lane& lane) {
    ++looks_;
    if (&lane == &waiter || lane.in_batch() || lane.phase == Phase::kReading) return;
    if (lane.kv.pages_held() == 0) return;
    const Standing other = StandingOf(lane);
    if (!other.idle && reach != Reach::kAny) {
      if (reach == Reach::kIdle || lane.keeps_pages() || IsServed(lane)) return;
      if (reach == Reach::kOverShare && !other.over_share) return;
      if (!EvictedBefore(other, standing)) return;
    }
    candidates_.emplace_back(other, &lane);
    most += lane.kv.pages_held();
  });
  if (most < free_wanted && reach != Reach::kAny) return false;
  // A heap, because few of them are evicted. Its first is the one that no other is evicted before.
  const auto by_standing = [](const auto& candidate) { return candidate.first; };
  const auto evicted_after = [](const Standing& a, const Standing& b) {
    return EvictedBefore(b, a);
  };
  std::ranges::make_heap(candidates_, evicted_after, by_standing);
  bool freed = false;
  while (!candidates_.empty() && pool_.pages_free() < free_wanted) {
    std::ranges::pop_heap(candidates_, evicted_after, by_standing);
    SuspendLane(*candidates_.back().second);
    candidates_.pop_back();
    freed = true;
  }
  return freed;
}

void Memory::SuspendLane(Lane& lane) {
  const bool whole = !lane.parked && lane.kv.tokens() > 0;
  states_.Suspend(lane, whole && swap_ ? swap_(lane) : nullptr);
}

}  // namespace pie
