// Planner: which waiting passes run in the next batch, and how much of each. A pure function: no
// clock, no memory of earlier steps, no pages touched.
//
// The first pass of the list is first: the oldest, or that of the user whose turn it is. Short
// passes (decodes) that wait behind a long one (a prefill) keep their room: the long one is cut
// into chunks around them, but the first long one always gets a share, so neither kind starves the
// other. A pass gets all of its pages when it starts, or does not start, so two half-done passes
// never wait for each other's pages. A long pass that waits for pages is not overtaken by younger
// long ones, which would keep taking the pages it waits for. A page that several passes begin with
// is computed by the first of them; the others find it after the batch. A pass that is expensive to
// read is cut where the batch would take too long to read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/limits.h"

namespace pie {

struct PlanRequest {
  uint32_t tokens_left = 0;   // at least 1
  uint32_t pages_needed = 0;  // free pages to take; 0 once started
  uint64_t next_page = 0;     // the page it would complete first; equal pages are equal; 0 = none
  bool may_wait = false;      // it may wait for another pass that completes that page
  std::span<const uint32_t> read_costs;  // of each token left (read_cost.h); empty: it is cheap
  uint32_t further_reading = 0;          // of a cheap one (read_cost.h)
};

struct PlanBudget {
  uint32_t tokens = 0;
  uint32_t members = 0;
  uint32_t pages_free = 0;
  // Short passes that are likely to arrive before the batch starts.
  uint32_t expected_tokens = 0;
  // Limit on the tokens of all long passes together.
  uint32_t long_tokens = UINT32_MAX;
  // Limit on the read cost of the batch. Passes that are cheap to read are not counted. 0: an
  // expensive pass runs only if nothing else could.
  uint32_t reading = limits::kReadingPerBatch;
  // Limit on the further reading of the passes that are cheap to read. The first of them may exceed
  // it.
  uint32_t further_reading = limits::kFurtherReadingPerBatch;
  // Set if nothing runs, so that waiting does not help. Any pass that fits is then planned rather
  // than none.
  bool device_idle = false;
};

struct Planned {
  uint32_t request = 0;  // index
  uint32_t tokens = 0;   // tokens of the pass in this batch
  friend bool operator==(const Planned&, const Planned&) = default;
};

// `waiting` is in the order in which the passes should run. Replaces `planned`, in the same order.
void Plan(std::span<const PlanRequest> waiting, PlanBudget budget, std::vector<Planned>& planned);

// A pass of at most this many tokens is short: a decode step. It is never cut.
constexpr uint32_t kShortTokens = 8;
// The first long pass gets at least 1 / kLongShare of the batch.
constexpr uint32_t kLongShare = 4;

}  // namespace pie
