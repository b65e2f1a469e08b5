// ScheduledPass: a Forward on its way through the scheduler, with its progress. It lives on the
// heap from Execute to `done`, so that a batch can point into it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "sched/scheduler.h"

namespace pie {

// Asks for the content of some pages of a sequence.
struct KvRead {
  uint32_t first_page = 0;
  uint32_t pages = 0;
  std::move_only_function<void(Result<KvContent>)> done;
};

struct ScheduledPass {
  Forward forward;
  uint32_t rows_done = 0;                 // rows that ran, or run now
  std::vector<uint32_t> read_costs = {};  // of each row (read_cost.h); empty: it is cheap to read
  uint32_t further_reading = 0;           // of a cheap pass (read_cost.h)
  uint32_t first_read = 0;                // the first row that a sample reads; rows() if none does
  std::vector<Slot> slots;                // of a chunked pass: what its chunks gave so far
  uint32_t chained = 0;                   // tokens that its chain has given
  uint32_t rejected = 0;    // drafts of the last pass that were not chosen, at the sequence's end
  bool holds_last = false;  // the last row was removed from the sequence, to be computed again
  uint32_t ahead = 0;       // later passes of its chain that are in flight already
  bool went_ahead = false;  // a batch in flight may still point to it when it is over

  // Has a pass of its chain run?
  bool has_followed() const { return forward.chain && chained > forward.chain->given; }
  uint32_t rows() const { return static_cast<uint32_t>(forward.tokens.size()); }
  uint32_t rows_left() const { return rows() - rows_done; }
  // The rows left before the first one that is read. They need not be computed if their KV is in
  // memory.
  RowsView unread() const {
    const uint32_t end = std::min(first_read, rows());
    return forward.rows(rows_done, end > rows_done ? end - rows_done : 0);
  }
};

// Checks a pass, its chain included: every number in it is one that the device can run. This is the
// only check of a pass. The caller of `Scheduler::Execute` calls it first, and the scheduler and
// the devices trust it. Pure; any thread; O(tokens).
Status Validate(const Forward& forward, const BackendInfo& info);

// Checks that a sequence may grow to `tokens` tokens on this device.
Status CheckLength(uint64_t tokens, const BackendInfo& info);
Status CheckPosition(uint32_t position, const BackendInfo& info);
Status CheckPositionCount(size_t tokens, size_t positions);
Status CheckToken(uint32_t token, uint32_t vocab_size);

// The size of what the samples of a pass give together.
struct ResultSize {
  uint64_t slots = 0;
  uint64_t values = 0;  // numbers of logits, distributions and so on, beside the slots
  uint64_t bytes() const { return slots * sizeof(Slot) + values * sizeof(float); }
};
ResultSize SizeOfResult(const std::vector<SampleSpec>& samples, const BackendInfo& info);

// The first row that a sample reads; the number of rows if none does.
uint32_t FirstRead(const Forward& forward);

// Puts the slots of the chunk of rows [first_row, first_row + rows) into their places in
// pass.slots.
void PlaceSlots(ScheduledPass& pass, uint32_t first_row, uint32_t rows, std::vector<Slot> slots);

}  // namespace pie
