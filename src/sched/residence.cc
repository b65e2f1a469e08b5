// Lanes that lose their pages and get them back. Part of LaneTable.
#include <algorithm>
#include <utility>

#include "sched/lane_table.h"

namespace pie {

uint32_t Lane::PagesWanted(uint32_t page_tokens) const {
  const uint32_t missing = replaying() ? 0 : tokens() - kv.tokens();
  if (missing == 0 || kv.tokens() > 0) return kv.PagesNeeded(missing + rows_wanted());
  return static_cast<uint32_t>((uint64_t{missing} + rows_wanted() + page_tokens - 1) / page_tokens);
}

void LaneTable::Suspend(Lane& lane, std::shared_ptr<const StoredKv> swapped) {
  PIE_CHECK(!lane.in_batch);
  if (lane.suspended() || lane.broken) return;
  if (lane.replaying()) {
    lane.current = std::move(lane.deferred);  // in the same place of ready_
  } else if (!lane.parked && lane.kv.tokens() > 0) {
    lane.parked = Parked{.stored = std::move(swapped), .tokens = lane.kv.tokens()};
    if (!lane.parked->stored) lane.parked->history = lane.kv.history();
  }
  lane.kv.Clear();
  lane.untouchable = false;
  if (std::erase(restoring_, &lane) > 0) InsertByAge(ready_, lane);
  ++suspensions_;
}

void LaneTable::Restore(Lane& lane) {
  PIE_CHECK(lane.suspended() && lane.current && !lane.in_batch);
  lane.untouchable = true;
  if (lane.parked->stored) {
    std::erase(ready_, &lane);
    InsertByAge(restoring_, lane);
    return;
  }
  Rows rows = lane.parked->history->From(0);
  const uint32_t found = lane.kv.Adopt(rows.view());
  auto replay = std::make_unique<Pass>();
  replay->ticket = lane.current->ticket;
  replay->turn = lane.current->turn;
  lane.deferred = std::exchange(lane.current, std::move(replay));
  if (found == rows.size()) {
    std::erase(ready_, &lane);
    EndReplay(lane);
    return;
  }
  rows.RemoveFront(found);
  lane.current->first_read = rows.size();
  lane.current->forward.sequence = lane.id;
  lane.current->forward.tokens = std::move(rows.tokens);
  lane.current->forward.positions = std::move(rows.positions);
  lane.current->forward.attention = std::move(rows.masks);
}

void LaneTable::EndReplay(Lane& lane) {
  replayed_tokens_ += lane.current->rows();
  lane.current = std::move(lane.deferred);
  lane.parked.reset();
  GoOn(lane);
}

void LaneTable::EndRestore(Lane& lane) {
  std::erase(restoring_, &lane);
  lane.parked.reset();
  GoOn(lane);
}

void LaneTable::GoOn(Lane& lane) {
  if (lane.current->rows() > 0) return MakeReady(lane);
  lane.current.reset();
  lane.untouchable = false;
  Wake(lane);
  RunRunnable();
}

}  // namespace pie
