// Memory: who has pages while there are not enough for all.
//
// Lanes that have pages come before those that have none. What has none, because it is new or was
// suspended, enters by its standing (market.h), nobody overtaken, while memory is filled up to a
// mark only: whoever is in still grows. When that is not enough, lanes lose their pages: first
// those that ask for nothing, then those that stand lower than the one that needs room. A lane that
// was restored keeps its pages until it has moved, and who has waited too long goes first: so no
// two lanes take pages from each other for ever, and nobody waits for ever.
//
// Owner: the step thread. Nothing here costs anything while memory is plenty.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "kv/page_pool.h"
#include "sched/lane_table.h"
#include "sched/market.h"
#include "sched/memory_options.h"

namespace pie {

// May an account that has no pages get some? All endowments of those who have some, and its own,
// fit into memory; or there is room below the mark anyway.
bool MayEnter(const MemoryOptions& options, uint64_t pages_total, uint64_t pages_used,
              uint64_t pages_wanted, uint64_t endowed_pages_in);

class Memory {
 public:
  Memory(const MemoryOptions& options, const BackendInfo& info, PagePool& pool, LaneTable& lanes,
         const Market& market)
      : options_(options), info_(info), pool_(pool), lanes_(lanes), market_(market) {}

  // Keeps a lane's pages elsewhere before it loses them; null = nobody does.
  void SetSwap(std::function<std::shared_ptr<const StoredKv>(const Lane&)> swap) {
    swap_ = std::move(swap);
  }

  // Which of the ready lanes may take part in the next plan: fills `allowed`, one a ready lane.
  // Restores those that enter. False: memory is plenty, all may.
  bool Select(int64_t now_ns, std::vector<bool>& allowed);
  // Some ready lanes found no pages. Suspends others for the best of them; true if that freed any.
  // `device_idle`: nothing runs, so waiting will not help, and somebody has to go on.
  bool MakeRoom(int64_t now_ns, bool device_idle);
  // The ready lane that has waited too long for pages and is to have them now: a lane that goes on
  // with every batch could else grow in front of it for ever. One at a time, until its pass has
  // ended, and for a small part of the time: who loses pages for it has to compute them again.
  Lane* Overdue(int64_t now_ns);
  // Suspends who stands lower than it. True: its pages are free.
  bool MakeRoomFor(Lane& overdue, int64_t now_ns);
  // Did a lane have to wait for pages, the last time?
  bool contended() const { return contended_; }

  Standing StandingOf(const Lane& lane, int64_t now_ns) const;
  Credits BidOf(const Lane& lane) const;

 private:
  uint64_t Mark() const {
    return static_cast<uint64_t>(options_.restore_pause_at * pool_.pages_total());
  }
  bool IsServed(const Lane& lane) const;
  bool Evict(const Lane& waiter, int64_t now_ns, uint64_t free_wanted, bool idle_only, bool force);

  const MemoryOptions options_;
  const BackendInfo& info_;
  PagePool& pool_;
  LaneTable& lanes_;
  const Market& market_;
  std::function<std::shared_ptr<const StoredKv>(const Lane&)> swap_;
  bool contended_ = false;
  struct Served {  // an overdue lane that got pages, for the pass of that turn
    SequenceId lane;
    uint64_t turn;
    int64_t since_ns;
  };
  std::optional<Served> served_;
  int64_t next_served_ns_ = 0;                          // not before
  std::vector<std::pair<Standing, Lane*>> candidates_;  // a buffer that is reused
};

}  // namespace pie
