// View: a picture of one device for people who watch it: which account holds which page, what
// accounts have, and how the last batches went.
//
// The step thread makes a view only when one was asked for, in slices of a fraction of a
// millisecond between batches. So a view of a busy device is not of one moment, but of a few
// batches. Other threads read the last complete view and never wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "kv/page_pool.h"
#include "sched/lane_table.h"
#include "sched/market.h"

namespace pie {

// Batches that began within a few milliseconds, together.
struct BatchBar {
  int64_t begin_ns = 0;
  int64_t busy_ns = 0;  // time that the device took
  uint32_t batches = 0;
  uint32_t members = 0;  // sequences, summed over the batches
  uint32_t rows = 0;     // tokens, likewise
};

struct View {
  enum class State : uint8_t { kFree, kCached, kHeld, kShared };
  struct Page {
    State state = State::kFree;
    uint32_t account = 0;  // index into `accounts`, of a held or shared page: its first holder
  };
  struct Account {
    uint64_t owner = 0;  // AccountView::owner; 0: no account pays
    Credits balance = 0;
    Credits dividend = 0;
    uint32_t contexts = 0;
    uint32_t suspended = 0;      // of those, contexts that hold no pages
    uint32_t pages_stored = 0;   // pages of those contexts in host memory or in a file
    uint32_t pages_dropped = 0;  // pages of those contexts that have to be computed again
  };

  int64_t made_ns = 0;
  std::vector<Page> pages;  // by page id
  std::vector<Account> accounts;
  std::vector<BatchBar> batches;  // the oldest first
};

// Owner: the step thread; any thread may call `latest`.
class Viewer {
 public:
  Viewer(const PagePool& pool, LaneTable& lanes, const Market& market, uint32_t page_tokens,
         const Clock& clock)
      : pool_(pool), lanes_(lanes), market_(market), page_tokens_(page_tokens), clock_(clock) {}

  // A batch has run.
  void AddBatch(int64_t begin_ns, int64_t end_ns, size_t members, size_t rows);
  // Begins a view, unless one is being made.
  void Begin();
  // Makes a slice of the view that was begun. Returns whether the view is still incomplete.
  bool Work();

  std::shared_ptr<const View> latest() const;  // any thread; null: there is none yet

 private:
  uint32_t IndexOf(AccountId account);
  void Look(const Lane& lane);
  // Returns false if the page was found to be shared before.
  bool Mark(PageId page, uint32_t account);
  void Finish();

  const PagePool& pool_;
  LaneTable& lanes_;
  const Market& market_;
  const uint32_t page_tokens_;
  const Clock& clock_;

  std::vector<BatchBar> bars_;  // a ring
  size_t next_bar_ = 0;

  std::shared_ptr<View> draft_;  // null: no view is being made
  std::vector<SequenceId> to_do_;
  std::unordered_map<uint64_t, uint32_t> index_;  // of accounts, by id
  std::unordered_set<const StoredKv*> counted_;   // forks share what is stored
  std::vector<Block*> blocks_;                    // buffers that are reused
  std::vector<PageId> own_pages_;

  mutable std::mutex mutex_;
  std::shared_ptr<const View> latest_;
};

}  // namespace pie
