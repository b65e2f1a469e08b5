// PageMover: the traffic of pages between the device and the memory outside of it. Stored tokens
// come into pages, pages are read for callers that keep them elsewhere, and the pages of a lane
// that is suspended may be copied to host memory.
//
// Owner: the step thread, which calls it between batches.
#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "kv/stored_kv.h"
#include "sched/lane_table.h"
#include "sched/memory_options.h"
#include "sched/swap.h"

namespace pie {

class PageMover {
 public:
  PageMover(Backend& backend, const BackendInfo& info, const Clock& clock, LaneTable& lanes,
            const MemoryOptions& options)
      : backend_(backend),
        info_(info),
        clock_(clock),
        lanes_(lanes),
        swap_(options.swap_pages),
        swap_always_(options.swap_always) {}

  // Answers reads, and writes stored pages to the device, a few milliseconds' worth of each.
  void Move();
  // Is there something for Move to do now?
  bool has_work() const;

  // Copies the pages of a lane to host memory. Null: there is no room, or it is cheaper to compute
  // the tokens again.
  std::shared_ptr<const StoredKv> SwapOut(const Lane& lane);
  // The device computed `tokens` in `ns`: what a replay would cost.
  void AddStep(int64_t ns, size_t tokens);

  uint64_t pages_restored() const { return pages_restored_; }
  uint64_t pages_swapped() const { return pages_swapped_; }

 private:
  // Writes some of a lane's stored pages. False: the lane must wait for pages.
  bool Restore(Lane& lane);
  Result<KvContent> ReadPages(const Lane& lane, const KvRead& read);

  Backend& backend_;
  const BackendInfo& info_;
  const Clock& clock_;
  LaneTable& lanes_;
  SwapPool swap_;
  const bool swap_always_;
  SwapCosts costs_;
  size_t restored_bytes_ = 0;   // by the last Move
  bool half_restored_ = false;  // the first of the restoring lanes has more pages to write
  uint64_t pages_restored_ = 0;
  uint64_t pages_swapped_ = 0;
};

}  // namespace pie
