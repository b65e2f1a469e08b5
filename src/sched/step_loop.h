// StepLoop: what the step thread does. drain → plan → reserve pages → submit → settle, and while
// the device runs one batch, the next is planned and built. A device that takes several batches at
// a time gets the next one before the last has run, if that leaves no lane behind (boarding.h).
//
// It owns all KV metadata: the pool, the page tables, the lanes. Nothing here is locked; other
// threads see only the queue in front and the counts behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/interruption.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "sched/boarding.h"
#include "sched/crew.h"
#include "sched/flights.h"
#include "sched/lane_table.h"
#include "sched/market.h"
#include "sched/memory.h"
#include "sched/page_mover.h"
#include "sched/queue.h"
#include "sched/row_price.h"
#include "sched/scheduler.h"
#include "sched/stats_board.h"
#include "sched/step_time.h"
#include "sched/view.h"

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
  // Do all counts of pages, lanes and credits agree? Fails with kCancelled if interrupted.
  Status CheckIntegrity(const Interruption& interruption = {}) const;

  PagePool& pool_for_tests() { return pool_; }                           // step thread
  SchedulerStats stats() const { return board_.Read(); }                 // any thread
  std::shared_ptr<const View> view() const { return viewer_.latest(); }  // any thread

 private:
  void BreakAll(const Error& error);
  void DrainCommands();
  void Apply(command::OpenAccount&& command);
  void Apply(command::CloseAccount&& command);
  void Apply(command::UseMeanwhile&& command);
  void Apply(command::Look&&) { viewer_.Begin(); }
  template <class LaneCommand>
  void Apply(LaneCommand&& command) {
    lanes_.Apply(std::move(command));
  }
  // Chains whose drafts are late go on without them.
  void EndLateDrafts();
  void SetTime(int64_t now_ns) { time_.now_ns = now_ns; }
  // How to wait for peers that would join the next batch. Nullopt: it is time to run it.
  std::optional<Pause> Hold();
  void Submit();
  void FinishOldest();
  // Tells the crew when the batch will end, if guests wait for it.
  void ExpectGuests(const Flight& flight);
  void Settle(Flight& flight, Result<BatchOutput> output);
  // Nothing runs and nothing can start: how to wait for work. Waiting for pages has a limit.
  Pause Idle();
  void Wait(const Pause& pause);
  // Checks the books while there is nothing to do, until a command comes. A mismatch is logged and
  // counted. Returns the time until the next check, if anything has happened since the last one.
  std::optional<std::chrono::nanoseconds> CheckWhileIdle();
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
  Boarding boarding_;
  PageMover mover_;
  Viewer viewer_;
  std::shared_ptr<Meanwhile> meanwhile_;
  Crew crew_;
  size_t guests_woken_ = 0;  // by the last batch that was settled

  CommandQueue::Drained drained_;              // a buffer that is reused
  std::optional<int64_t> gathering_since_ns_;  // when the next batch could first start
  int64_t last_end_ns_ = 0;                    // when the last batch had run
  int64_t last_tick_ns_ = 0;
  int64_t auction_ns_ = 0;  // what the last auction took
  std::optional<int64_t> last_check_ns_;
  bool unchecked_ = true;        // since the last check
  bool suspension_due_ = false;  // suspend a lane when no batch is in flight
  int64_t last_expiry_ns_ = 0;
  std::optional<int64_t> starving_since_ns_;
  uint32_t starving_pages_free_ = 0;
  SchedulerStats stats_;  // the figures up to the last step
  StatsBoard board_;
};

}  // namespace pie
