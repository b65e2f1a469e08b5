// StepLoop: what the step thread does. drain → plan → reserve pages → run → settle, and while the
// device runs one batch, the next is planned and built.
//
// It owns all KV metadata: the pool, the page tables, the lanes. Nothing here is locked; the queue
// in front and the counts behind are all that other threads see.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "sched/lane_table.h"
#include "sched/market.h"
#include "sched/memory.h"
#include "sched/planner.h"
#include "sched/queue.h"
#include "sched/scheduler.h"
#include "sched/swap.h"

namespace pie {

class StepLoop {
 public:
  StepLoop(Backend& backend, const SchedulerOptions& options, CommandQueue& queue,
           const Clock& clock);

  void Run();  // on the step thread, until the queue is closed

  // What there is to wait for when there is nothing to run.
  struct Pause {
    std::optional<std::chrono::nanoseconds> timeout;  // nullopt: for work only
    size_t commands = 1;                              // that end it
    bool spin = false;                                // work may come any moment
  };
  // Runs a batch, if there is one to run; else says how to wait for it. Never waits but for the
  // device. For Run, and for whoever owns the clock.
  std::optional<Pause> Turn();
  Status CheckIntegrity() const;

  SchedulerStats stats() const;  // any thread

 private:
  // A batch with the lanes that are its members.
  struct Flight {
    struct Member {
      Lane* lane = nullptr;
      uint32_t first_row = 0;  // of the pass
      uint32_t rows = 0;
    };
    Batch batch;
    std::vector<Member> members;
    std::vector<uint64_t> pages_made;  // the next of each member that others may wait for

    bool empty() const { return members.empty(); }
    bool Makes(const PlanRequest& request) const;
    void Clear();
  };

  void DrainCommands();
  // Adds what is ready to a batch that has not started yet. `running` is what the device runs now.
  void Assemble(Flight& flight, const Flight& running);
  // Who has waited too long for pages has them before anybody else boards. False: nobody should.
  bool ServeOverdue(Flight& flight, const Flight& running);
  // Between batches: brings parked tokens into pages, and answers who reads pages.
  void MovePages();
  bool Restore(Lane& lane);  // some of it at a time; true if it can go on at once
  std::shared_ptr<const StoredKv> SwapOut(const Lane& lane);
  Result<KvContent> ReadPages(const Lane& lane, const KvRead& read);
  // Rows that wait and are in memory already need not be computed.
  void AdoptCached();
  // So much of the pass is ahead that it is better off with pages that others are about to make.
  bool MayFindWholePages(const Pass& pass) const;
  void Board(Flight& flight, Lane& lane, uint32_t rows);
  PlanRequest RequestOf(const Lane& lane) const;
  void PlanAndBoard(Flight& flight, const Flight& running);
  // To wait for peers that would join this batch. Nullopt: it is time to run it.
  std::optional<Pause> Hold(const Flight& flight);
  void RunBatch(Flight& flight, Flight& next);
  void Settle(Flight& flight, Result<BatchOutput> output);
  // Nothing runs and nothing can start: waits for work, and for pages only so long.
  Pause Idle();
  void Wait(const Pause& pause);
  bool RunGuests(const Pause& pause);  // true: what it waited for is there
  // The market's tick, where memory is short.
  void TickMarket(int64_t now_ns);
  // Fails passes that have waited too long.
  void ExpireRequests(int64_t now_ns);
  void FailOldest();
  void Publish();

  Backend& backend_;
  const BackendInfo info_;
  const SchedulerOptions options_;
  CommandQueue& queue_;
  const Clock& clock_;
  PagePool pool_;
  PrefixIndex index_;
  LaneTable lanes_;
  Market market_;
  Memory memory_;
  SwapPool swap_;
  SwapCosts swap_costs_;
  uint64_t pages_swapped_ = 0;
  Flight flights_[2];
  Flight* next_ = &flights_[0];   // being built
  Flight* other_ = &flights_[1];  // the one before

  std::shared_ptr<Meanwhile> meanwhile_;

  std::vector<Command> commands_;  // buffers that are reused
  std::vector<PlanRequest> requests_;
  std::vector<Planned> planned_;
  std::vector<bool> allowed_;
  std::vector<uint32_t> asked_;  // the ready lane of each request, where not all ask

  std::optional<int64_t> gathering_since_ns_;  // since when the next batch could start
  int64_t last_latency_ns_ = 0;
  bool short_of_pages_ = false;  // did the last plan leave anybody out for want of pages?
  int64_t last_tick_ns_ = 0;
  int64_t last_expiry_ns_ = 0;
  std::optional<int64_t> starving_since_ns_;
  uint32_t starving_pages_free_ = 0;
  uint64_t steps_ = 0;
  uint64_t tokens_ = 0;
  uint64_t pages_restored_ = 0;
  bool moving_ = false;  // there is more for MovePages to do

  struct Counts {
    std::atomic<uint64_t> sequences = 0;
    std::atomic<uint64_t> pages_used = 0;
    std::atomic<uint64_t> pages_cached = 0;
    std::atomic<uint64_t> pages_restored = 0;
    std::atomic<uint64_t> prefix_hits = 0;
    std::atomic<uint64_t> prefix_tokens_saved = 0;
    std::atomic<uint64_t> prefix_merged = 0;
    std::atomic<uint64_t> prefix_evictions = 0;
    std::atomic<uint64_t> suspensions = 0;
    std::atomic<uint64_t> replayed_tokens = 0;
    std::atomic<double> price = 0;
    std::atomic<uint64_t> pages_swapped = 0;
    std::atomic<uint64_t> queued = 0;
    std::atomic<uint64_t> steps = 0;
    std::atomic<uint64_t> tokens = 0;
    std::atomic<double> last_step_seconds = 0;
  } counts_;
};

}  // namespace pie
