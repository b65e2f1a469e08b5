#include "sched/lane_table.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/limits.h"

namespace pie {
namespace {

// Calls a `done` callback. An exception of the callback must not end the step thread.
template <class Done, class Answer>
void Tell(Done& done, Answer&& answer) {
  if (!done) return;
  try {
    done(std::forward<Answer>(answer));
  } catch (const std::exception& error) {
    fmt::print(stderr, "pie: the result of a pass was lost: {}\n", error.what());
  }
}

}  // namespace

void LaneTable::Apply(command::Create&& command) {
  Lane& lane = Add(command.sequence, command.salt);
  lane.account = command.account;
  if (command.stored) {
    states_.BeginStored(lane, std::move(command.stored), std::move(command.adapters));
  }
}

void LaneTable::Apply(command::Fork&& command) {
  Lane* const parent = Find(command.parent);
  Lane& child = Add(command.child, {});
  child.account = command.account;
  if (parent == nullptr) {
    states_.MarkBroken(child,
                       {Code::kNotFound, "forked from a sequence that does not exist (any more)"});
  } else if (PopGoneForks(*parent); !Admit(*parent)) {
    states_.MarkBroken(child, *parent->closed);
  } else {
    states_.AwaitFork(child);
    Line(*parent, {.kind = Operation::Kind::kFork, .child = command.child});
  }
  RunRunnable();
}

void LaneTable::Apply(const command::Truncate& command) {
  Lane* const lane = Find(command.sequence);
  if (lane == nullptr) return;
  if (Merge(*lane, Operation::Kind::kTruncate, command.tokens) || !Admit(*lane)) return;
  Line(*lane, {.kind = Operation::Kind::kTruncate, .tokens = command.tokens});
  RunRunnable();
}

void LaneTable::Apply(const command::Suspend& command) {
  Lane* const lane = Find(command.sequence);
  if (lane == nullptr) return;
  if (Merge(*lane, Operation::Kind::kSuspend) || !Admit(*lane)) return;
  Line(*lane, {.kind = Operation::Kind::kSuspend});
  RunRunnable();
}

void LaneTable::Apply(command::Execute&& command) {
  Lane* const lane = Find(command.pass->forward.sequence);
  if (lane == nullptr) return;  // dropped: `done` is destroyed with the pass
  if (!Admit(*lane)) {
    Tell(command.pass->forward.done, std::unexpected(*lane->closed));
    return;
  }
  ++passes_;
  Line(*lane, {.kind = Operation::Kind::kPass, .pass = std::move(command.pass)});
  RunRunnable();
}

void LaneTable::Apply(command::Read&& command) {
  Lane* const lane = Find(command.sequence);
  if (lane == nullptr) return;  // dropped: `done` is destroyed with the command
  if (!Admit(*lane)) {
    Tell(command.read->done, std::unexpected(*lane->closed));
    return;
  }
  Line(*lane, {.kind = Operation::Kind::kRead, .read = std::move(command.read)});
  RunRunnable();
}

void LaneTable::Apply(command::Drop&& command) {
  Lane* const lane = Find(command.sequence);
  if (lane == nullptr) return;
  lane->dropped = true;
  lane->held = std::move(command.held);
  states_.cohort().Gone(lane->peer);
  // Rows after the last fork with a living child are no longer needed.
  while (lane->waiting() > 0) {
    const Operation& last = lane->operations.back();
    if (last.kind == Operation::Kind::kFork && FindEvenDropped(last.child) != nullptr) break;
    PopLast(*lane);
  }
  for (size_t i = lane->head; i < lane->operations.size(); ++i) {
    if (lane->operations[i].pass) lane->operations[i].pass->forward.done = nullptr;
  }
  const bool on_device = lane->phase == Phase::kRunning && !lane->replay;
  if (lane->pass && !on_device) lane->pass->forward.done = nullptr;
  if (lane->waiting() == 0 && !lane->in_batch()) Erase(*lane);
}

void LaneTable::Apply(const command::Own& command) {
  if (Lane* lane = Find(command.sequence)) lane->account = command.account;
}

void LaneTable::Apply(command::Await&& command) {
  tickets_.Await(std::move(command.fence));
}

void LaneTable::Bid(SequenceId sequence, const BidPlan& bids) {
  Lane* const lane = Find(sequence);
  if (lane == nullptr) return;
  if (bids.number != lane->bids.number) lane->steps_at_expectation = lane->steps;
  lane->bids = bids;
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
  operation.ticket = tickets_.Take();
  lane.operations.push_back(std::move(operation));
  EndIdleChain(lane);
  Wake(lane);
}

void LaneTable::PopLast(Lane& lane) {
  const Operation& last = lane.operations.back();
  tickets_.GiveBack(last.ticket);
  if (last.pass) --passes_;
  lane.operations.pop_back();
}

void LaneTable::PopGoneForks(Lane& lane) {
  const auto is_gone = [this](const Operation& operation) {
    return operation.kind == Operation::Kind::kFork && FindEvenDropped(operation.child) == nullptr;
  };
  while (lane.waiting() > 0 && is_gone(lane.operations.back())) PopLast(lane);
}

// A truncation and a suspension that follow one another may change places, so that at most one of
// each kind waits between two other operations.
bool LaneTable::Merge(Lane& lane, Operation::Kind kind, uint32_t tokens) {
  PopGoneForks(lane);
  for (size_t i = lane.operations.size(); i > lane.head; --i) {
    Operation& earlier = lane.operations[i - 1];
    const bool may_change_places =
        earlier.kind == Operation::Kind::kTruncate || earlier.kind == Operation::Kind::kSuspend;
    if (!may_change_places) return false;
    if (earlier.kind != kind) continue;
    earlier.tokens = std::min(earlier.tokens, tokens);
    return true;
  }
  return false;
}

void LaneTable::Erase(Lane& lane) {
  if (lane.busy()) tickets_.GiveBack(lane.ticket);
  if (lane.pass) {
    --passes_;
    TakeBackAhead(lane);
    Destroy(std::move(lane.pass));
  }
  states_.Forget(lane);
  std::erase(runnable_, &lane);
  lanes_.erase(lane.id);
}

void LaneTable::Settle(Lane& lane, std::vector<Slot> slots, uint32_t first_row, uint32_t rows) {
  ScheduledPass& pass = lane.next_pass();
  states_.Land(lane);
  pass.holds_last = false;
  const bool last = pass.rows_left() == 0;
  // Drafts are published when they were chosen.
  lane.kv.Publish(last ? pass.ahead + pass.forward.drafts : 0);
  if (rows < pass.rows()) {
    PlaceSlots(pass, first_row, rows, std::move(slots));
    slots = last ? std::move(pass.slots) : std::vector<Slot>();
  }
  if (lane.dropped && lane.waiting() == 0) {
    // The pages are given back first: a caller that is told of the end finds them free.
    auto done = std::move(pass.forward.done);
    Erase(lane);
    if (last) Tell(done, std::move(slots));
    return;
  }
  if (!last) return states_.BeginPass(lane);
  if (lane.replay) return states_.EndReturn(lane);
  if (!pass.forward.samples.empty()) ++lane.steps;
  if (pass.forward.chain) {
    ContinueChain(lane, std::move(slots));
  } else {
    EndPass(lane, std::move(slots));
    if (lane.waiting() == 0 && !lane.dropped) states_.cohort().Woke(lane.peer);
  }
  Wake(lane);
  RunRunnable();
}

void LaneTable::EndAdopted(Lane& lane) {
  states_.Board(lane);
  Settle(lane, {}, lane.next_pass().rows(), 0);
}

void LaneTable::EndRead(Lane& lane, Result<KvContent> content) {
  const std::unique_ptr<KvRead> read = std::move(lane.read);
  states_.End(lane);
  tickets_.GiveBack(lane.ticket);
  Tell(read->done, std::move(content));
  Wake(lane);
  RunRunnable();
}

bool LaneTable::RunAgain(Lane& lane, uint32_t first_row, uint32_t rows) {
  if (lane.replay || lane.dropped || !lane.pass) return false;
  const auto& rules = lane.pass->forward.rules;
  if (!rules || !rules->WasLate()) return false;
  states_.Land(lane);
  lane.kv.Truncate(lane.kv.tokens() - rows);
  lane.pass->rows_done = first_row;
  BeginMasked(lane);
  Wake(lane);
  RunRunnable();
  return true;
}

void LaneTable::Destroy(std::unique_ptr<ScheduledPass> pass) {
  if (!pass->went_ahead) return;
  pass->forward.done = nullptr;
  flights_.Keep(std::move(pass));
}

void LaneTable::FailChoice(Lane& lane, const Error& error) {
  const ScheduledPass& pass = lane.next_pass();
  // Callers count on all rows of a pass.
  if (lane.replay || pass.rows_left() > 0) return Break(lane, error);
  states_.Land(lane);
  FailLanded(lane, error);
  Wake(lane);
  RunRunnable();
}

void LaneTable::FailLanded(Lane& lane, const Error& error) {
  const ScheduledPass& pass = *lane.pass;
  TakeBackAhead(lane);
  // The last token that a chain gave is not fed.
  const uint32_t not_wanted = pass.forward.drafts + (pass.chained > 0 ? 1 : 0);
  if (not_wanted > 0) lane.kv.Truncate(lane.kv.tokens() - not_wanted);
  lane.kv.Publish();
  EndPass(lane, std::unexpected(error));
}

void LaneTable::Break(Lane& lane, const Error& error) {
  if (!lane.pass) {
    states_.MarkBroken(lane, error);
    return EndRead(lane, std::unexpected(error));
  }
  BreakPass(lane, error);
  Wake(lane);
  RunRunnable();
}

void LaneTable::BreakPass(Lane& lane, const Error& error) {
  TakeBackAhead(lane);
  states_.MarkBroken(lane, error);
  EndPass(lane, std::unexpected(error));
}

void LaneTable::BreakAll(const Error& error) {
  std::erase(states_.ready(), nullptr);  // lanes that were just taken into a batch
  std::vector<SequenceId> busy;
  for (const auto& [id, lane] : lanes_) {
    if (lane->pass || lane->read) busy.push_back(id);
  }
  // Breaking a lane may end other lanes, or begin operations that waited for it.
  for (const SequenceId id : busy) {
    Lane* const lane = FindEvenDropped(id);
    if (lane != nullptr && (lane->pass || lane->read)) Break(*lane, error);
  }
}

bool LaneTable::BreakWaiting(int64_t since_ns, size_t most, const Error& error) {
  std::vector<SequenceId> late;
  for (const Lane* lane : states_.ready()) {
    if (lane->ready_since_ns > since_ns) continue;
    if (late.size() == most) break;
    late.push_back(lane->id);
  }
  for (const SequenceId id : late) {
    Lane* const lane = FindEvenDropped(id);
    const bool waits = lane != nullptr && lane->phase == Phase::kReady && lane->busy();
    if (waits && lane->ready_since_ns <= since_ns) Break(*lane, error);
  }
  return late.size() < most;
}

void LaneTable::EndPass(Lane& lane, Result<std::vector<Slot>> result) {
  // Otherwise the row, which is neither in the sequence nor computed again, would be lost without
  // an error.
  if (lane.pass->holds_last && !result && !lane.broken) states_.MarkBroken(lane, result.error());
  TakeBackAhead(lane);
  std::unique_ptr<ScheduledPass> pass = std::move(lane.pass);
  states_.End(lane);
  tickets_.GiveBack(lane.ticket);
  --passes_;
  Tell(pass->forward.done, std::move(result));
  Destroy(std::move(pass));
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
  while (lane.phase == Phase::kIdle && lane.waiting() > 0) {
    Operation operation = std::move(lane.operations[lane.head++]);
    lane.Compact();
    switch (operation.kind) {
      case Operation::Kind::kPass:
        lane.pass = std::move(operation.pass);
        lane.ticket = lane.place = operation.ticket;
        Begin(lane);
        continue;  // counted when it ends
      case Operation::Kind::kFork:
        if (Lane* child = FindEvenDropped(operation.child)) {  // null: dropped meanwhile
          states_.EndFork(*child, lane);
          Wake(*child);
        }
        break;
      case Operation::Kind::kTruncate:
        states_.Truncate(lane, operation.tokens);
        break;
      case Operation::Kind::kSuspend:
        states_.Suspend(lane);
        break;
      case Operation::Kind::kRead:
        if (lane.broken) {
          Tell(operation.read->done, std::unexpected(*lane.broken));
          break;
        }
        lane.read = std::move(operation.read);
        lane.ticket = lane.place = operation.ticket;
        states_.BeginRead(lane);
        continue;  // counted when it ends
    }
    tickets_.GiveBack(operation.ticket);
  }
  if (lane.busy() || lane.waiting() > 0) return;
  if (lane.closed && !lane.broken) states_.MarkBroken(lane, *lane.closed);
  if (lane.dropped) Erase(lane);
}

std::optional<Error> LaneTable::FaultOf(const Lane& lane) const {
  if (lane.broken) return lane.broken;
  const Status fits = CheckLength(uint64_t{lane.tokens()} + lane.pass->rows(), info_);
  if (!fits) return fits.error();
  return std::nullopt;
}

// The lane's pass waits for a batch, or fails at once if it could never run.
void LaneTable::Begin(Lane& lane) {
  if (lane.pass->forward.repeats_last && !lane.broken) {
    if (const Status taken = TakeLastRow(lane); !taken) {
      return EndPass(lane, std::unexpected(taken.error()));
    }
  }
  std::optional<Error> fault = FaultOf(lane);
  if (!fault) {
    const Status kept = LaneStates::KeepAdapter(lane);
    lane.masked |= !lane.pass->forward.attention.empty();
    if (kept) return BeginMasked(lane);
    fault = kept.error();
  }
  BreakPass(lane, *fault);
}

Status LaneTable::TakeLastRow(Lane& lane) {
  if (lane.tokens() == 0) return Fail(Code::kInvalid, "empty input: the sequence has no last row");
  const uint32_t last = lane.tokens() - 1;
  Rows row;
  if (!lane.parked) {
    row = lane.kv.history().From(last);
  } else if (lane.parked->history) {
    row = lane.parked->history->From(last);
  } else {
    row.Append(lane.parked->stored->rows().Sub(last, 1), last);
  }
  Forward& forward = lane.pass->forward;
  if (!row.masks.empty() && (forward.chain || forward.tokens.size() > 1)) {
    return Fail(Code::kInvalid,
                "the last token has an attention mask of its own: read it by a pass that is not "
                "part of a chain, or feed a token after it");
  }
  forward.tokens.front() = row.tokens.front();
  // The tokens after it count on from its position.
  const uint32_t expected = forward.positions.front();
  for (uint32_t& position : forward.positions) position += row.positions.front() - expected;
  const uint32_t highest = std::ranges::max(forward.positions);
  PIE_RETURN_IF_ERROR(CheckPosition(highest, info_));
  if (forward.chain) {
    const uint64_t left = info_.max_positions - 1 - highest;
    forward.chain->room = std::min(forward.chain->room, left);
  }
  forward.attention = std::move(row.masks);
  forward.repeats_last = false;
  lane.pass->holds_last = true;
  states_.Truncate(lane, last);
  return {};
}

size_t LaneTable::holders() const {
  return static_cast<size_t>(std::ranges::count_if(
      lanes_, [](const auto& entry) { return entry.second->kv.pages_held() > 0; }));
}

Status LaneTable::CheckIntegrity(const Interruption& interruption) const {
  std::vector<const Lane*> lanes;
  std::vector<PageId> pages;
  std::vector<Block*> blocks;
  for (const auto& [id, lane] : lanes_) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    lanes.push_back(lane.get());
    lane->kv.CollectHeld(blocks, pages);
  }
  PIE_RETURN_IF_ERROR(states_.CheckIntegrity(lanes, interruption));
  PIE_RETURN_IF_ERROR(index_.CheckIntegrity(blocks, pages, interruption));
  return index_.pool().CheckIntegrity(pages, interruption);
}

}  // namespace pie
