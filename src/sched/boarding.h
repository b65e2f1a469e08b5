// Boarding: puts lanes that are ready into the next batch. It takes pages that are in memory
// already, chooses lanes by what the memory and the planner allow, and writes their rows into the
// batch. It belongs to the step thread.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend/backend.h"
#include "kv/page_pool.h"
#include "sched/flights.h"
#include "sched/lane_table.h"
#include "sched/market.h"
#include "sched/memory.h"
#include "sched/planner.h"
#include "sched/scheduler.h"
#include "sched/step_time.h"
#include "sched/turns_of_users.h"

namespace pie {

class Boarding {
 public:
  Boarding(const BackendInfo& info, const SchedulerOptions& options, const PagePool& pool,
           Flights& flights, LaneTable& lanes, Market& market, Memory& memory, const StepTime& time)
      : info_(info),
        options_(options),
        pool_(pool),
        flights_(flights),
        lanes_(lanes),
        states_(lanes.states()),
        market_(market),
        memory_(memory),
        time_(time) {}

  // Adds ready lanes to the next batch.
  void Assemble();
  // Returns whether to submit the next batch while others are in flight. If so, its chains board it
  // with tokens that the batches in flight have still to choose.
  bool BoardAhead();
  // Whether a lane goes on adopting cached pages in the next round.
  bool adopting() const { return adopting_; }
  // Until that time, a pass that is expensive to read boards only if nothing else could run.
  void DelayReading(int64_t until_ns) { reading_again_ns_ = until_ns; }

 private:
  // Adopts cached pages for the rows of waiting passes, so that these rows need not be computed.
  void AdoptCached();
  // The same for one lane, as far as its user may adopt pages in this round.
  void AdoptPages(Lane& lane);
  // Lanes that are still adopting pages do not board. Returns whether any other lane may.
  bool LeaveOutAdopting();
  // Serves the overdue lane first. Returns false if no other lane may board.
  bool ServeOverdue();
  // Whether the pass has so many rows left that it should wait for pages that other passes are
  // about to make.
  bool MayFindWholePages(const ScheduledPass& pass) const;
  PlanRequest RequestOf(const Lane& lane) const;
  void PlanAndBoard();
  // Whether long passes and short passes of another user are about to run, or were a moment ago. A
  // long batch would then delay the other user's next token.
  bool LongPassDelaysOthers();
  // If the requests are more than the budget allows, brings them into an order in which users take
  // turns. Returns whether it did.
  bool TakeTurns(const PlanBudget& budget);
  void Board(Lane& lane, uint32_t rows);
  bool CanBoardAhead(const Lane& lane) const;
  void BoardAhead(Lane& lane, uint32_t source);
  bool NextIsFull() const;

  const BackendInfo& info_;
  const SchedulerOptions& options_;
  const PagePool& pool_;
  Flights& flights_;
  LaneTable& lanes_;
  LaneStates& states_;
  Market& market_;
  Memory& memory_;
  const StepTime& time_;

  std::vector<PlanRequest> requests_;  // buffers that are reused
  std::vector<Planned> planned_;
  std::vector<bool> allowed_;
  std::vector<Lane*> adopted_;
  std::unordered_map<uint64_t, uint32_t> pages_adopted_;  // by each user in this round
  std::vector<uint32_t> asked_;  // the index of each request's lane in ready()
  std::vector<uint64_t> users_;  // the user of each request
  std::vector<uint32_t> order_;
  std::vector<PlanRequest> ordered_requests_;
  std::vector<uint32_t> ordered_asked_;
  TurnsOfUsers turns_;

  bool adopting_ = false;
  std::optional<int64_t> delayed_others_ns_;  // when LongPassDelaysOthers last saw both kinds
  bool short_of_pages_ = false;  // the last plan left out a lane that found too few pages
  bool may_go_ahead_ = false;    // false: a lane waits for pages until no batch is in flight
  int64_t reading_again_ns_ = 0;
};

}  // namespace pie
