// StepLoop: what the step thread does. drain → plan → reserve pages → submit → settle, and while
// the device runs one batch, the next is planned and built. A device that takes several batches at
// a time gets the next one before the last has run, if that leaves no lane behind (BoardAhead).
//
// It owns all KV metadata: the pool, the page tables, the lanes. Nothing here is locked; other
// threads see only the queue in front and the counts behind.
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
#include "sched/flights.h"
#include "sched/lane_table.h"
#include "sched/market.h"
#include "sched/memory.h"
#include "sched/page_mover.h"
#include "sched/planner.h"
#include "sched/queue.h"
#include "sched/row_price.h"
#include "sched/scheduler.h"
#include "sched/step_time.h"

namespace pie {

class StepLoop {
 public:
  StepLoop(Backend& backend, const SchedulerOptions& options, CommandQueue& queue,
           const Clock& clock);

  void Run();  // on the step thread, until the queue is closed

  // How to wait when there is nothing to run.
  struct Pause {
    std::optional<std::chrono::nanoseconds> timeout;  // nullopt: wait for commands only
    size_t commands = 1;                              // how many of them end the pause
    bool spin = false;                                // they may come any moment
  };
  // One round: runs a batch, if there is one to run, else says how to wait for one. Waits for
  // nothing but the device. Called by Run, and by the simulation, which owns the clock.
  std::optional<Pause> RunOnce();
  Status CheckIntegrity() const;

  SchedulerStats stats() const;  // any thread

 private:
  void DrainCommands();
  void Apply(command::OpenAccount&& command);
  void Apply(command::CloseAccount&& command);
  void Apply(command::UseMeanwhile&& command);
  template <class LaneCommand>
  void Apply(LaneCommand&& command) {
    lanes_.Apply(std::move(command));
  }
  void SetTime(int64_t now_ns) { time_.now_ns = now_ns; }
  // Adds ready lanes to the next batch.
  void Assemble();
  // Serves the overdue lane first. Returns false if no other lane may board.
  bool ServeOverdue();
  // Takes pages from memory for rows that wait, so that they need not be computed.
  void AdoptCached();
  // Whether the pass has so many rows left that it should wait for pages that other passes are
  // about to make?
  bool MayFindWholePages(const ScheduledPass& pass) const;
  PlanRequest RequestOf(const Lane& lane) const;
  void PlanAndBoard();
  void Board(Lane& lane, uint32_t rows);
  // Should the next batch be submitted while others are in flight? Then its chains board it with
  // tokens that those still choose.
  bool BoardAhead();
  bool CanBoardAhead(const Lane& lane) const;
  void BoardAhead(Lane& lane, uint32_t source);
  bool NextIsFull() const;
  // How to wait for peers that would join the next batch. Nullopt: it is time to run it.
  std::optional<Pause> Hold();
  void Submit();
  void FinishOldest();
  void Settle(Flight& flight, Result<BatchOutput> output);
  // Nothing runs and nothing can start: how to wait for work. Waiting for pages has a limit.
  Pause Idle();
  void Wait(const Pause& pause);
  // Checks the books now and then while there is nothing to do, if that takes little time. A
  // mismatch is logged and counted.
  void CheckWhileIdle();
  // For tests (suspend_every_steps).
  void ForceSuspension();
  bool RunGuests(const Pause& pause);  // true: the pause is over
  // The market's tick, where memory is short.
  void TickMarket();
  // Fails passes that have waited too long.
  void ExpireRequests();
  void FailOldest();
  void Publish();

  Backend& backend_;
  const BackendInfo info_;
  const SchedulerOptions options_;
  CommandQueue& queue_;
  const Clock& clock_;
  PagePool pool_;
  PrefixIndex index_;
  StepTime time_;
  RowPrice row_price_;
  Flights flights_;
  LaneTable lanes_;
  LaneStates& states_;
  Market market_;
  Memory memory_;
  PageMover mover_;
  std::shared_ptr<Meanwhile> meanwhile_;

  CommandQueue::Drained drained_;  // buffers that are reused
  std::vector<PlanRequest> requests_;
  std::vector<Planned> planned_;
  std::vector<bool> allowed_;
  std::vector<Lane*> adopted_;
  std::vector<uint32_t> asked_;  // the index of each request's lane in ready()

  std::optional<int64_t> gathering_since_ns_;  // when the next batch could first start
  int64_t last_end_ns_ = 0;                    // when the last batch had run
  bool short_of_pages_ = false;  // did the last plan leave a lane out for want of pages?
  bool may_go_ahead_ = false;    // false: a lane waits for pages until no batch is in flight
  int64_t last_tick_ns_ = 0;
  int64_t reading_again_ns_ = 0;  // when a pass that is expensive to read may run beside others
  int64_t auction_ns_ = 0;        // what the last auction took
  int64_t last_check_ns_ = 0;
  bool suspension_due_ = false;  // a lane is to be suspended when no batch is in flight
  int64_t last_expiry_ns_ = 0;
  std::optional<int64_t> starving_since_ns_;
  uint32_t starving_pages_free_ = 0;
  uint64_t steps_ = 0;
  uint64_t steps_ahead_ = 0;
  uint64_t tokens_ = 0;

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
    std::atomic<uint64_t> steps_ahead = 0;
    std::atomic<uint64_t> tokens = 0;
    std::atomic<uint64_t> drafted = 0;
    std::atomic<uint64_t> confirmed = 0;
    std::atomic<double> last_step_seconds = 0;
    std::atomic<uint64_t> integrity_checks = 0;
    std::atomic<uint64_t> integrity_failures = 0;
  } counts_;
};

}  // namespace pie
