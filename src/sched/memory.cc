#include "sched/memory.h"

#include <algorithm>
#include <unordered_set>

namespace pie {
namespace {

// As long as an overdue lane was served, times this, nobody has to make room for another.
constexpr int64_t kOthersShare = 4;

// Has pages, or has been promised some.
bool IsIn(const Lane& lane) {
  return lane.kv.pages_held() > 0 || lane.untouchable;
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
  if (lane.bid) return *lane.bid;
  // How long it goes on is known of a chain only; else it is taken to be at half-time.
  const Pass* const pass = lane.deferred ? lane.deferred.get() : lane.current.get();
  double steps = std::max<double>(64, lane.tokens());
  if (pass != nullptr && pass->forward.chain) {
    steps = std::max<double>(1, pass->forward.chain->max_tokens - pass->chained);
  }
  return DefaultBid({.balance = market_.balance(lane.account),
                     .dividend = market_.dividend(lane.account),
                     .pages = (lane.tokens() + info_.page_tokens - 1) / info_.page_tokens,
                     .page_tokens = info_.page_tokens,
                     .steps = steps,
                     .variation = 1});
}

Standing Memory::StandingOf(const Lane& lane, int64_t now_ns) const {
  const bool asks = lane.current || lane.reading || lane.waiting() > 0;
  return {
      .idle = !asks && !lanes_.cohort().JustWoken(lane.peer),
      .overdue = lane.current && !lane.in_batch &&
                 now_ns - lane.ready_since_ns > options_.overdue_ms * 1'000'000LL,
      .defaulted = market_.defaulted(lane.account),
      .bid = BidOf(lane),
      .age = lane.id.value,
  };
}

bool Memory::Select(int64_t now_ns, std::vector<bool>& allowed) {
  const std::vector<Lane*>& ready = lanes_.ready();
  uint64_t growth = 0;  // of those who are in
  uint64_t entrance = 0;
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
    if (!IsIn(*lane)) candidates_.emplace_back(StandingOf(*lane, now_ns), lane);
  }
  std::ranges::sort(candidates_, RestoredBefore, [](const auto& c) { return c.first; });
  std::unordered_set<uint64_t> in;  // accounts that have pages
  lanes_.ForEach([&](const Lane& lane) {
    if (IsIn(lane)) in.insert(lane.account.value);
  });
  in.erase(0);
  contended_ = used + growth > pool_.pages_total();
  uint64_t taken = used + growth;
  std::unordered_set<const Lane*> refused;
  for (const auto& [standing, lane] : candidates_) {
    const uint32_t wanted = lane->PagesWanted(info_.page_tokens);
    bool enters = refused.empty();
    if (enters && (lane->suspended() || in.contains(lane->account.value))) {
      enters = taken + wanted <= Mark();
    } else if (enters) {
      enters = MayEnter(options_, pool_.pages_total(), taken, wanted,
                        in.size() * uint64_t{options_.endowment_pages});
    }
    if (!enters) {
      refused.insert(lane);
      contended_ = true;
      continue;
    }
    taken += wanted;
    in.insert(lane->account.value);
    if (lane->suspended()) lanes_.Restore(*lane);
  }
  allowed.resize(ready.size());  // a restore may have changed the list
  for (size_t i = 0; i < ready.size(); ++i) {
    allowed[i] = !refused.contains(ready[i]) && !ready[i]->suspended();
  }
  return true;
}

bool Memory::MakeRoom(int64_t now_ns, bool device_idle) {
  const std::vector<Lane*>& ready = lanes_.ready();
  if (ready.empty()) return false;
  contended_ = true;
  // The best of those that wait; who is in comes before who is not, unless that one is overdue.
  Lane* best = nullptr;
  Standing best_standing;
  const auto outranks = [](const Lane& a, const Standing& as, const Lane& b, const Standing& bs) {
    const bool a_first = as.overdue || IsIn(a);
    const bool b_first = bs.overdue || IsIn(b);
    return a_first != b_first ? a_first : RestoredBefore(as, bs);
  };
  for (Lane* lane : ready) {
    const Standing standing = StandingOf(*lane, now_ns);
    if (best == nullptr || outranks(*lane, standing, *best, best_standing)) {
      best = lane;
      best_standing = standing;
    }
  }
  const uint64_t wanted = best->PagesWanted(info_.page_tokens);
  const bool is_in = IsIn(*best);
  // Who enters in the ordinary way leaves room above the mark.
  const uint64_t spare =
      is_in || best_standing.overdue || device_idle
          ? 0
          : pool_.pages_total() - std::min<uint64_t>(Mark(), pool_.pages_total());
  const bool forced = device_idle;
  const bool idle_only = !is_in && !best_standing.overdue && !device_idle;
  bool freed = Evict(*best, now_ns, wanted + spare, idle_only, forced);
  if (!device_idle) return freed;
  if (wanted > pool_.pages_free() && best->kv.pages_held() > 0) {
    // It cannot even have the copy of its own partial page: all of it is computed again.
    lanes_.Suspend(*best);
    freed = true;
  }
  if (best->suspended() && best->PagesWanted(info_.page_tokens) <= pool_.pages_free()) {
    lanes_.Restore(*best);
    freed = true;
  } else if (!best->suspended() && !is_in) {
    best->untouchable = true;  // it is in from now on, mark or no mark
    freed = true;
  }
  return freed;
}

bool Memory::IsServed(const Lane& lane) const {
  return served_ && lane.id == served_->lane && lane.current && lane.current->turn == served_->turn;
}

Lane* Memory::Overdue(int64_t now_ns) {
  if (!contended_) return nullptr;
  if (served_) {
    const Lane* const served = lanes_.Get(served_->lane);
    if (served != nullptr && IsServed(*served)) return nullptr;
    const int64_t pause_ns = kOthersShare * (now_ns - served_->since_ns);
    served_.reset();
    next_served_ns_ = now_ns + std::max<int64_t>(pause_ns, options_.overdue_ms * 1'000'000LL);
  }
  if (now_ns < next_served_ns_) return nullptr;
  Lane* best = nullptr;
  Standing best_standing;
  for (Lane* lane : lanes_.ready()) {
    const Standing standing = StandingOf(*lane, now_ns);
    if (!standing.overdue || lane->PagesWanted(info_.page_tokens) == 0) continue;
    if (best != nullptr && !RestoredBefore(standing, best_standing)) continue;
    best = lane;
    best_standing = standing;
  }
  return best;
}

bool Memory::MakeRoomFor(Lane& overdue, int64_t now_ns) {
  const uint32_t wanted = overdue.PagesWanted(info_.page_tokens);
  Evict(overdue, now_ns, wanted, false, false);
  if (pool_.pages_free() < wanted) return false;
  served_ = Served{.lane = overdue.id, .turn = overdue.current->turn, .since_ns = now_ns};
  return true;
}

bool Memory::Evict(const Lane& waiter, int64_t now_ns, uint64_t free_wanted, bool idle_only,
                   bool force) {
  if (pool_.pages_free() >= free_wanted) return false;
  const Standing standing = StandingOf(waiter, now_ns);
  candidates_.clear();
  uint64_t most = pool_.pages_free();
  lanes_.ForEach([&](Lane& lane) {
    if (&lane == &waiter || lane.in_batch || lane.reading) return;
    if (lane.kv.pages_held() == 0) return;
    const Standing other = StandingOf(lane, now_ns);
    const bool kept = lane.untouchable || IsServed(lane);
    if (!other.idle && (idle_only || kept) && !force) return;
    if (!other.idle && !force && !EvictedBefore(other, standing)) return;
    candidates_.emplace_back(other, &lane);
    most += lane.kv.pages_held();
  });
  if (most < free_wanted && !force) return false;
  std::ranges::sort(candidates_, EvictedBefore, [](const auto& c) { return c.first; });
  bool freed = false;
  for (const auto& [unused, lane] : candidates_) {
    if (pool_.pages_free() >= free_wanted) break;
    const bool whole = !lane->parked && lane->kv.tokens() > 0;
    lanes_.Suspend(*lane, whole && swap_ ? swap_(*lane) : nullptr);
    freed = true;
  }
  return freed;
}

}  // namespace pie
