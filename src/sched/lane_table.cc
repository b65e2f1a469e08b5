#include "sched/lane_table.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace pie {

void LaneTable::Apply(Command command) {
  using Kind = Command::Kind;
  switch (command.kind) {
    case Kind::kCreate:
      if (Lane& lane = Add(command.sequence, command.salt); true) {
        lane.account = command.account;
        if (command.stored) {
          lane.parked = Parked{.stored = std::move(command.stored)};
          lane.parked->tokens = lane.parked->stored->rows().size();
        }
      }
      break;
    case Kind::kRead:
      if (Lane* lane = Find(command.sequence); lane == nullptr) {
        break;  // dropped: `done` is destroyed with the command
      } else if (!Admit(*lane)) {
        command.read->done(std::unexpected(*lane->closed));
      } else {
        Line(*lane, {.kind = Operation::Kind::kRead, .read = std::move(command.read)});
      }
      break;
    case Kind::kFork:
      Fork(Find(command.sequence), command.child);
      lanes_.at(command.child)->account = command.account;
      break;
    case Kind::kTruncate:
      if (Lane* lane = Find(command.sequence); lane != nullptr && Admit(*lane)) {
        Line(*lane, {.kind = Operation::Kind::kTruncate, .tokens = command.tokens});
      }
      break;
    case Kind::kDrop:
      if (Lane* lane = Find(command.sequence)) Drop(*lane);
      break;
    case Kind::kExecute:
      Execute(Find(command.sequence), std::move(command.pass));
      break;
    case Kind::kSuspend:
      if (Lane* lane = Find(command.sequence); lane != nullptr && Admit(*lane)) {
        Line(*lane, {.kind = Operation::Kind::kSuspend});
      }
      break;
    case Kind::kBid:
      if (Lane* lane = Find(command.sequence)) lane->bid = CreditsOf(command.bid);
      break;
    case Kind::kOwn:
      if (Lane* lane = Find(command.sequence)) lane->account = command.account;
      break;
    case Kind::kOpenAccount:
    case Kind::kCloseAccount:
    case Kind::kMeanwhile:
      break;  // the step loop's
    case Kind::kFence:
      fences_.push_back({std::move(command.fence), next_ticket_, operations_});
      break;
  }
  RunRunnable();
}

Lane* LaneTable::FindEvenDropped(SequenceId id) const {
  const auto found = lanes_.find(id);
  return found == lanes_.end() ? nullptr : found->second.get();
}

Lane* LaneTable::Find(SequenceId id) const {
  Lane* lane = FindEvenDropped(id);
  return lane == nullptr || lane->dropped ? nullptr : lane;
}

Lane& LaneTable::Add(SequenceId id, const CacheSalt& salt) {
  std::unique_ptr<Lane>& lane = lanes_[id];
  lane = std::make_unique<Lane>(id, Sequence(index_, salt));
  return *lane;
}

bool LaneTable::Admit(Lane& lane) {
  if (!lane.closed && lane.waiting() >= limits::kOperationsPerSequence) {
    lane.closed =
        Error{Code::kExhausted, fmt::format("{} operations wait on one sequence: wait for some of "
                                            "its passes before asking for more",
                                            lane.waiting())};
  }
  return !lane.closed;
}

void LaneTable::Line(Lane& lane, Operation operation) {
  operation.ticket = next_ticket_++;
  if (operation.pass) operation.pass->ticket = operation.pass->turn = operation.ticket;
  ++operations_;
  lane.operations.push_back(std::move(operation));
  EndIdleChain(lane);
  Wake(lane);
}

void LaneTable::Execute(Lane* lane, std::unique_ptr<Pass> pass) {
  if (lane == nullptr) return;  // dropped: `done` is destroyed with the pass
  if (!Admit(*lane)) {
    if (pass->forward.done) pass->forward.done(std::unexpected(*lane->closed));
    return;
  }
  ++passes_;
  Line(*lane, {.kind = Operation::Kind::kPass, .pass = std::move(pass)});
}

void LaneTable::Fork(Lane* parent, SequenceId child_id) {
  Lane& child = Add(child_id, {});
  if (parent == nullptr) {
    child.broken = Error{Code::kNotFound, "forked from a sequence that does not exist (any more)"};
  } else if (!Admit(*parent)) {
    child.broken = parent->closed;
  } else {
    child.awaits_fork = true;
    Line(*parent, {.kind = Operation::Kind::kFork, .child = child_id});
  }
}

void LaneTable::Drop(Lane& lane) {
  lane.dropped = true;
  cohort_.Gone(lane.peer);
  // What lies behind the last fork that somebody waits for is needed by nobody.
  size_t end = lane.operations.size();
  while (end > lane.head) {
    const Operation& last = lane.operations[end - 1];
    if (last.kind == Operation::Kind::kFork && FindEvenDropped(last.child) != nullptr) break;
    CountEnded(last.ticket);
    if (last.pass) --passes_;
    --end;
  }
  lane.operations.resize(end);
  for (size_t i = lane.head; i < end; ++i) {
    if (lane.operations[i].pass) lane.operations[i].pass->forward.done = nullptr;
  }
  if (lane.current && !lane.on_device) lane.current->forward.done = nullptr;
  if (lane.deferred) lane.deferred->forward.done = nullptr;
  if (lane.waiting() == 0 && !lane.in_batch) Erase(lane);
}

void LaneTable::Erase(Lane& lane) {
  if (const Pass* pass = lane.deferred ? lane.deferred.get() : lane.current.get();
      pass != nullptr && pass->rows() > 0) {
    CountEnded(pass->ticket);
    --passes_;
  }
  if (lane.reading) CountEnded(lane.reading_ticket);
  Forget(lane);
  std::erase(runnable_, &lane);
  lanes_.erase(lane.id);
}

void LaneTable::Forget(Lane& lane) {
  for (std::vector<Lane*>* lanes : {&ready_, &restoring_, &reading_}) std::erase(*lanes, &lane);
}

void LaneTable::MakeReady(Lane& lane) {
  cohort_.Back(lane.peer);
  lane.ready_since_ns = cohort_.now_ns();
  InsertByAge(ready_, lane);
}

void LaneTable::InsertByAge(std::vector<Lane*>& lanes, Lane& lane) {
  const auto older = [](const Lane* a, const Lane* b) {
    return a->current->turn < b->current->turn;
  };
  // Nearly always at the end: passes become ready about in the order in which they came.
  auto at = lanes.end();
  while (at != lanes.begin() && older(&lane, *(at - 1))) --at;
  lanes.insert(at, &lane);
}

void LaneTable::EndRead(Lane& lane, Result<KvContent> content) {
  std::erase(reading_, &lane);
  CountEnded(lane.reading_ticket);
  const std::unique_ptr<KvRead> read = std::move(lane.reading);
  read->done(std::move(content));
  Wake(lane);
  RunRunnable();
}

void LaneTable::Settle(Lane& lane, std::vector<Slot> slots, uint32_t first_row, uint32_t rows) {
  lane.in_batch = lane.on_device = false;
  lane.kv.Publish();
  Pass& pass = *lane.current;
  const bool last = pass.rows_left() == 0;
  if (rows < pass.rows()) {
    PlaceSlots(pass, first_row, rows, std::move(slots));
    slots = last ? std::move(pass.slots) : std::vector<Slot>();
  }
  if (lane.dropped && lane.waiting() == 0) {
    // Its pages go first: whoever is told that the pass ended finds them free.
    auto done = std::move(pass.forward.done);
    Erase(lane);
    if (done && last) done(std::move(slots));
    return;
  }
  if (last && lane.replaying()) {
    EndReplay(lane);
    return;
  }
  if (!lane.replaying()) lane.untouchable = false;
  if (!last) {
    MakeReady(lane);
    return;
  }
  if (pass.forward.chain) {
    Follow(lane, std::move(slots));
  } else {
    EndPass(lane, std::move(slots));
    if (lane.waiting() == 0 && !lane.dropped) cohort_.Woke(lane.peer);
  }
  Wake(lane);
  RunRunnable();
}

void LaneTable::EndAdopted(Lane& lane) {
  std::erase(ready_, &lane);
  Settle(lane, {}, lane.current->rows(), 0);
}

void LaneTable::Follow(Lane& lane, std::vector<Slot> slots) {
  const Result<bool> follows = FollowOn(*lane.current, slots, lane.waiting() > 0);
  if (!follows) {
    EndPass(lane, std::unexpected(follows.error()));
  } else if (!*follows) {
    EndPass(lane, std::move(slots));
  } else {
    lane.current->turn = next_ticket_++;  // behind those that wait by now, as if asked for anew
    Begin(lane);
  }
}

// The first pass runs in any case: its asker counts on its tokens.
void LaneTable::EndIdleChain(Lane& lane) {
  if (!lane.current || lane.in_batch || lane.current->chained == 0) return;
  if (lane.parked && lane.untouchable) return;  // on its way back: it ends after its pass
  std::erase(ready_, &lane);
  EndPass(lane, std::vector<Slot>());
}

void LaneTable::Break(Lane& lane, const Error& error) {
  if (!lane.in_batch) Forget(lane);
  lane.in_batch = lane.on_device = lane.untouchable = false;
  if (lane.deferred) lane.current = std::move(lane.deferred);
  lane.broken = error;
  lane.parked.reset();
  lane.kv.Clear();
  EndPass(lane, std::unexpected(error));
  Wake(lane);
  RunRunnable();
}

void LaneTable::EndPass(Lane& lane, Result<std::vector<Slot>> result) {
  const std::unique_ptr<Pass> pass = std::move(lane.current);
  if (pass->rows() == 0) return;  // nobody asked for it: it was there for the sake of a restore
  CountEnded(pass->ticket);
  --passes_;
  if (pass->forward.done) pass->forward.done(std::move(result));
}

void LaneTable::CountEnded(uint64_t ticket) {
  --operations_;
  for (PendingFence& fence : fences_) {
    if (ticket < fence.ticket) --fence.operations_left;
  }
}

void LaneTable::Wake(Lane& lane) {
  if (lane.runnable) return;
  lane.runnable = true;
  runnable_.push_back(&lane);
}

void LaneTable::RunRunnable() {
  while (!runnable_.empty()) {
    Lane& lane = *runnable_.back();
    runnable_.pop_back();
    lane.runnable = false;
    Advance(lane);
  }
}

void LaneTable::Advance(Lane& lane) {
  while (!lane.current && !lane.reading && !lane.awaits_fork && lane.waiting() > 0) {
    Operation operation = std::move(lane.operations[lane.head++]);
    if (operation.kind != Operation::Kind::kRead) lane.Compact();
    switch (operation.kind) {
      case Operation::Kind::kPass:
        lane.current = std::move(operation.pass);
        Begin(lane);
        continue;  // counted when it ends
      case Operation::Kind::kFork:
        Materialise(lane, operation.child);
        break;
      case Operation::Kind::kTruncate:
        if (lane.parked) {
          lane.parked->tokens = std::min(lane.parked->tokens, operation.tokens);
          if (lane.parked->history) lane.parked->history->Truncate(lane.parked->tokens);
        } else {
          lane.kv.Truncate(operation.tokens);
        }
        break;
      case Operation::Kind::kSuspend:
        Suspend(lane);
        break;
      case Operation::Kind::kRead:
        if (lane.broken) {
          operation.read->done(std::unexpected(*lane.broken));
          break;
        }
        if (lane.parked && !lane.parked->stored) {
          // What has to be computed again is brought back first.
          lane.operations[--lane.head] = std::move(operation);
          lane.current = std::make_unique<Pass>();
          lane.current->turn = next_ticket_++;
          MakeReady(lane);
          continue;
        }
        lane.reading = std::move(operation.read);
        lane.reading_ticket = operation.ticket;
        reading_.push_back(&lane);
        continue;  // counted when it ends
    }
    CountEnded(operation.ticket);
  }
  if (lane.current || lane.reading || lane.waiting() > 0) return;
  if (lane.closed && !lane.broken) {
    lane.broken = lane.closed;
    lane.parked.reset();
    lane.kv.Clear();
  }
  if (lane.dropped) Erase(lane);
}

// The current pass goes to the device, or fails here if it never could.
void LaneTable::Begin(Lane& lane) {
  Pass& pass = *lane.current;
  const uint64_t tokens = uint64_t{lane.tokens()} + pass.rows();
  const uint64_t capacity = uint64_t{info_.total_pages} * info_.page_tokens;
  std::optional<Error> fault = lane.broken ? lane.broken : std::move(pass.rejected);
  if (!fault && tokens > info_.max_positions) {
    fault = Error{Code::kExhausted, fmt::format("the sequence would have {} tokens, this model "
                                                "takes at most {}",
                                                tokens, info_.max_positions)};
  }
  if (!fault && tokens > capacity) {
    fault = Error{Code::kExhausted,
                  fmt::format("the sequence would have {} tokens, the KV memory "
                              "holds {} ({} pages of {} tokens)",
                              tokens, capacity, info_.total_pages, info_.page_tokens)};
  }
  if (!fault) {
    MakeReady(lane);
    return;
  }
  lane.broken = fault;
  lane.parked.reset();
  lane.kv.Clear();
  EndPass(lane, std::unexpected(*std::move(fault)));
}

void LaneTable::Materialise(Lane& parent, SequenceId child_id) {
  Lane* child = FindEvenDropped(child_id);
  if (child == nullptr) return;  // dropped meanwhile
  child->awaits_fork = false;
  if (parent.broken) {
    child->broken = parent.broken;
  } else if (!child->broken) {
    child->kv = parent.kv.Fork();
    child->parked = parent.parked;
  }
  Wake(*child);
}

size_t LaneTable::holders() const {
  return static_cast<size_t>(std::ranges::count_if(
      lanes_, [](const auto& entry) { return entry.second->kv.pages_held() > 0; }));
}

void LaneTable::SignalFences() {
  std::erase_if(fences_, [](const PendingFence& pending) {
    if (pending.operations_left > 0) return false;
    pending.fence->Signal();
    return true;
  });
}

Status LaneTable::CheckIntegrity() const {
  std::vector<PageId> pages;
  std::vector<Block*> blocks;
  for (const auto& [id, lane] : lanes_) lane->kv.CollectHeld(blocks, pages);
  PIE_RETURN_IF_ERROR(index_.CheckIntegrity(blocks, pages));
  return index_.pool().CheckIntegrity(pages);
}

}  // namespace pie
