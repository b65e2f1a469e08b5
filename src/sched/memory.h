// Memory: decides which lanes have pages while there are not enough for all.
//
// Lanes that have pages come before lanes that have none. A lane without pages, because it is new
// or was suspended, enters by its standing (market.h); no lane is overtaken. Memory is filled up to
// a mark only, because the lanes that are in still grow. When that is not enough, lanes are
// evicted: first idle ones, then those that stand lower than the one that needs room. A lane that
// came back keeps its pages until some of its pass has run, and an overdue lane is served first. So
// no two lanes take pages from each other for ever, and no lane waits for ever.
//
// While one user holds more than their share of the pages, a lane of another user who stays within
// theirs is served soon, with pages of the former. So how long a user waits depends neither on how
// many inferlets another one runs, nor on what these bid.
//
// Owner: the step thread. It costs nothing while there is plenty of memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kv/page_pool.h"
#include "sched/lane_table.h"
#include "sched/market.h"
#include "sched/memory_options.h"

namespace pie {

// May an account that has no pages get some? It may if there is room below the mark, or if its
// endowment and those of all accounts that have pages fit into memory.
bool MayEnter(const MemoryOptions& options, uint64_t pages_total, uint64_t pages_used,
              uint64_t pages_wanted, uint64_t endowed_pages_in);

class Memory {
 public:
  Memory(const MemoryOptions& options, const BackendInfo& info, PagePool& pool, LaneTable& lanes,
         Market& market, const StepTime& time)
      : options_(options),
        info_(info),
        pool_(pool),
        lanes_(lanes),
        states_(lanes.states()),
        market_(market),
        time_(time) {}

  // Sets the function that copies a lane's pages to host memory before the lane loses them. Null:
  // pages are not copied.
  void SetSwap(std::function<std::shared_ptr<const StoredKv>(const Lane&)> swap) {
    swap_ = std::move(swap);
  }

  // Fills `allowed`, with one entry for each ready lane: whether the lane may take part in the next
  // plan. Lets suspended lanes that may enter return. Returns false if there is plenty of memory,
  // so that all lanes may take part.
  bool Select(std::vector<bool>& allowed);
  // Call when ready lanes found no pages. Suspends other lanes in favour of the ready lane with the
  // best standing. Returns whether that freed pages. `device_idle`: nothing runs, so waiting does
  // not help, and one lane must go on.
  bool MakeRoom(bool device_idle);
  // Returns the ready lane that has waited too long for pages and is served next. Without this, a
  // lane that runs in every batch could take every free page before it. One lane at a time is
  // served, until its pass has ended. A lane that stays within the share of its user may be served
  // at any time; others only for a small part of the time, because the lanes that are evicted for
  // them have to compute their tokens again.
  Lane* Overdue();
  // Suspends lanes of users who hold more than their share if `overdue` stays within the share of
  // its own user, else lanes with a lower standing. Returns whether the pages that it needs are
  // free.
  bool MakeRoomFor(Lane& overdue);
  // Takes the pages of a lane that is in no batch; a copy may be kept in host memory.
  void SuspendLane(Lane& lane);
  // Whether a lane had to wait for pages in the last round.
  bool contended() const { return contended_; }
  // How many lanes were looked at so far, to decide which have pages.
  uint64_t looks() const { return looks_; }

  Standing StandingOf(const Lane& lane) const;
  Credits BidOf(const Lane& lane) const;

 private:
  uint64_t Mark() const {
    return static_cast<uint64_t>(options_.restore_pause_at * pool_.pages_total());
  }
  bool IsServed(const Lane& lane) const;
  // Whether this ready lane has waited long enough for pages that are within its user's share and
  // that other users hold.
  bool IsServedByShare(const Lane& lane) const;
  // Which lanes may lose their pages to another, beside idle ones.
  enum class Reach : uint8_t {
    kIdle,       // no others
    kOverShare,  // those of users who hold more than their share
    kLower,      // those with a lower standing
    kAny,
  };
  std::unordered_set<uint64_t> AccountsIn();  // accounts that have pages
  bool Evict(const Lane& waiter, uint64_t free_wanted, Reach reach);

  const MemoryOptions options_;
  const BackendInfo& info_;
  PagePool& pool_;
  LaneTable& lanes_;
  LaneStates& states_;
  Market& market_;
  const StepTime& time_;
  std::function<std::shared_ptr<const StoredKv>(const Lane&)> swap_;
  bool contended_ = false;
  uint64_t looks_ = 0;
  struct Served {  // an overdue lane that got pages, for the pass that has this place
    SequenceId lane;
    uint64_t place;
    int64_t since_ns;
    bool by_share;  // the pages that it got are within its user's share
  };
  std::optional<Served> served_;
  int64_t next_served_ns_ = 0;  // no overdue lane is served before this time
  std::vector<std::pair<Standing, Lane*>> candidates_;  // a buffer that is reused
};

}  // namespace pie
