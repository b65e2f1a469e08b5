// StepLoop: what the step thread does. drain → plan → reserve pages → run → settle, and while the
// device runs one batch, the next is planned and built.
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
#include "sched/lane_table.h"
#include "sched/market.h"
#include "sched/memory.h"
#include "sched/page_mover.h"
#include "sched/planner.h"
#include "sched/queue.h"
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
  void Apply(command::OpenAccount command);
  void Apply(command::CloseAccount command);
  void Apply(command::UseMeanwhile command);
  template <class C>
  void Apply(C command) {
    lanes_.Apply(std::move(command));
  }
  void SetTime(int64_t now_ns) { time_.now_ns = now_ns; }
  // Adds ready lanes to a batch that has not started yet. `running` is what the device runs now.
  void Assemble(Flight& flight, const Flight& running);
  // Serves the overdue lane first. Returns false if no other lane may board.
  bool ServeOverdue(Flight& flight, const Flight& running);
  // Takes pages from memory for rows that wait, so that they need not be computed.
  void AdoptCached();
  // Are so many rows of the pass ahead that it should wait for pages that other passes are about to
  // make?
  bool MayFindWholePages(const ScheduledPass& pass) const;
  void Board(Flight& flight, Lane& lane, uint32_t rows);
  PlanRequest RequestOf(const Lane& lane) const;
  void PlanAndBoard(Flight& flight, const Flight& running);
  // How to wait for peers that would join this batch. Nullopt: it is time to run it.
  std::optional<Pause> Hold(const Flight& flight);
  void RunBatch(Flight& flight, Flight& next);
  void Settle(Flight& flight, Result<BatchOutput> output);
  // Nothing runs and nothing can start: how to wait for work. Waiting for pages has a limit.
  Pause Idle();
  void Wait(const Pause& pause);
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
  LaneTable lanes_;
  LaneStates& states_;
  Market market_;
  Memory memory_;
  PageMover mover_;
  Flight flights_[2];
  Flight* next_ = &flights_[0];   // being built
  Flight* other_ = &flights_[1];  // the one before

  std::shared_ptr<Meanwhile> meanwhile_;

  CommandQueue::Drained drained_;  // buffers that are reused
  std::vector<PlanRequest> requests_;
  std::vector<Planned> planned_;
  std::vector<bool> allowed_;
  std::vector<uint32_t> asked_;  // the index of each request's lane in ready()

  std::optional<int64_t> gathering_since_ns_;  // when the next batch could first start
  bool short_of_pages_ = false;  // did the last plan leave a lane out for want of pages?
  int64_t last_tick_ns_ = 0;
  int64_t last_expiry_ns_ = 0;
  std::optional<int64_t> starving_since_ns_;
  uint32_t starving_pages_free_ = 0;
  uint64_t steps_ = 0;
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
    std::atomic<uint64_t> tokens = 0;
    std::atomic<double> last_step_seconds = 0;
  } counts_;
};

}  // namespace pie
