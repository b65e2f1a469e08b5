// ScheduledPass: a Forward on its way through the scheduler, with what became of it so far. It
// lives on the heap from Execute to `done`, so that a batch can point into it.
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
  std::optional<Error> rejected;  // found wrong before it was queued; fails when it begins
  uint32_t rows_done = 0;         // rows that ran, or run now
  uint32_t first_read = 0;        // the first row that a sample reads; rows() if none does
  std::vector<Slot> slots;        // of a chunked pass: what its chunks gave so far
  uint32_t chained = 0;           // tokens that its chain has given

  uint32_t rows() const { return static_cast<uint32_t>(forward.tokens.size()); }
  uint32_t rows_left() const { return rows() - rows_done; }
  // The rows left before the first one that is read. They need not be computed if their KV is in
  // memory.
  RowsView unread() const {
    const uint32_t end = std::min(first_read, rows());
    return forward.rows(rows_done, end > rows_done ? end - rows_done : 0);
  }
};

// What is wrong with a pass that no device and no amount of memory could run. Pure, any thread:
// called where the pass is asked for, so that the step thread need not look at every token.
std::optional<Error> FindFault(const Forward& forward, const BackendInfo& info);

// The first row that a sample reads; the number of rows if none does.
uint32_t FirstRead(const Forward& forward);

// Slots that all samples of the pass give together.
uint64_t SlotCount(const std::vector<SampleSpec>& samples);

// Puts the slots of the chunk of rows [first_row, first_row + rows) into their places in
// pass.slots.
void PlaceSlots(ScheduledPass& pass, uint32_t first_row, uint32_t rows, std::vector<Slot> slots);

}  // namespace pie
