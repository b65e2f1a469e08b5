#include "sched/planner.h"

#include <algorithm>

namespace pie {
namespace {

bool IsMade(const PlanRequest& request, std::span<const PlanRequest> waiting,
            const std::vector<Planned>& planned) {
  return request.may_wait && std::ranges::any_of(planned, [&](const Planned& made) {
           return waiting[made.request].next_page == request.next_page;
         });
}

// Returns how many of `tokens` the batch can read, and takes their cost from the budget. The first
// expensive pass always gets one token.
uint32_t FitReading(const PlanRequest& request, uint32_t tokens, bool first, PlanBudget& left) {
  if (request.read_costs.empty()) return tokens;
  if (left.reading == 0) return 0;
  uint32_t fit = 0;
  for (; fit < tokens; ++fit) {
    const uint32_t cost = request.read_costs[fit];
    if (cost > left.reading && !(first && fit == 0)) break;
    left.reading -= std::min(cost, left.reading);
  }
  return fit;
}

// Takes the further reading of a cheap pass from the budget. Returns false if there is too little
// left.
bool TakeFurtherReading(const PlanRequest& request, const PlanBudget& whole, PlanBudget& left) {
  if (request.further_reading > left.further_reading &&
      left.further_reading < whole.further_reading) {
    return false;
  }
  left.further_reading -= std::min(request.further_reading, left.further_reading);
  return true;
}

bool IsShort(const PlanRequest& request, const PlanBudget& whole) {
  return request.read_costs.empty() && request.tokens_left <= std::min(kShortTokens, whole.tokens);
}

void PlanInOrder(std::span<const PlanRequest> waiting, const PlanBudget& whole,
                 std::vector<Planned>& planned) {
  PlanBudget left = whole;
  // The tokens and pages that the short passes later in the list would take.
  uint64_t short_tokens = whole.expected_tokens;
  uint64_t short_pages = 0;
  for (const PlanRequest& request : waiting) {
    if (!IsShort(request, whole)) continue;
    short_tokens += request.tokens_left;
    short_pages += request.pages_needed;
  }

  uint32_t share = std::max(whole.tokens / kLongShare, 1U);
  const auto unread = [&] { return left.reading == whole.reading; };
  bool long_waits_for_pages = false;
  for (uint32_t i = 0; i < waiting.size() && left.members > 0 && left.tokens > 0; ++i) {
    const PlanRequest& request = waiting[i];
    uint32_t tokens = request.tokens_left;
    const bool is_short = IsShort(request, whole);
    if (is_short) {
      short_tokens -= request.tokens_left;
      short_pages -= request.pages_needed;
    }
    if (IsMade(request, waiting, planned)) continue;
    if (is_short) {
      if (tokens > left.tokens || request.pages_needed > left.pages_free) continue;
    } else {
      if (request.pages_needed > 0) {
        if (request.pages_needed + short_pages > left.pages_free) long_waits_for_pages = true;
        if (long_waits_for_pages) continue;
      }
      const auto spare =
          static_cast<uint32_t>(left.tokens - std::min<uint64_t>(short_tokens, left.tokens));
      tokens = std::min({tokens, std::max(spare, share), left.tokens, left.long_tokens});
      tokens = FitReading(request, tokens, unread(), left);
      if (tokens == 0) continue;
    }
    if (!TakeFurtherReading(request, whole, left)) continue;
    if (!is_short) {
      share = 0;
      left.long_tokens -= tokens;
    }
    planned.push_back({.request = i, .tokens = tokens});
    left.tokens -= tokens;
    left.pages_free -= request.pages_needed;
    --left.members;
  }
}

void PlanWhateverFits(std::span<const PlanRequest> waiting, const PlanBudget& whole,
                      std::vector<Planned>& planned) {
  PlanBudget left = whole;
  for (uint32_t i = 0; i < waiting.size() && left.members > 0 && left.tokens > 0; ++i) {
    if (waiting[i].pages_needed > left.pages_free) continue;
    if (IsMade(waiting[i], waiting, planned)) continue;
    const uint32_t tokens = FitReading(waiting[i], std::min(waiting[i].tokens_left, left.tokens),
                                       planned.empty(), left);
    if (tokens == 0 || !TakeFurtherReading(waiting[i], whole, left)) continue;
    planned.push_back({.request = i, .tokens = tokens});
    left.tokens -= tokens;
    left.pages_free -= waiting[i].pages_needed;
    --left.members;
  }
}

}  // namespace

void Plan(std::span<const PlanRequest> waiting, PlanBudget budget, std::vector<Planned>& planned) {
  planned.clear();
  PlanInOrder(waiting, budget, planned);
  if (!planned.empty() || !budget.device_idle) return;
  budget.reading = limits::kReadingPerBatch;
  PlanWhateverFits(waiting, budget, planned);
}

}  // namespace pie
