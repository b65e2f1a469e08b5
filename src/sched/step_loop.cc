#include "sched/step_loop.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "base/random.h"
#include "sched/auction.h"

namespace pie {
namespace {

void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Prefetches an object that was last used before the device went through all of its weights.
template <class T>
void Fetch(const T* object) {
  const auto* bytes = reinterpret_cast<const char*>(object);
  for (size_t i = 0; i < sizeof(T); i += 64) __builtin_prefetch(bytes + i, 1);
}

// After a batch that was expensive to read, the next one comes after this many times as long.
constexpr int64_t kTimeForOthers = 3;

// Minimum number of reusable pages for which a pass waits on another pass's prefix.
constexpr uint32_t kPagesToWaitFor = 4;

uint32_t Limit(uint32_t wanted, uint32_t device) {
  return wanted == 0 ? device : std::min(wanted, device);
}

// The device's limits, and the configured ones within them.
BackendInfo Limited(BackendInfo info, const SchedulerOptions& options) {
  info.max_batch_tokens = Limit(options.max_batch_tokens, info.max_batch_tokens);
  info.max_batch_members = Limit(options.max_batch_members, info.max_batch_members);
  PIE_CHECK(info.max_batch_tokens > 0 && info.max_batch_members > 0 && info.page_tokens > 0);
  return info;
}

}  // namespace

StepLoop::StepLoop(Backend& backend, const SchedulerOptions& options, CommandQueue& queue,
                   const Clock& clock)
    : backend_(backend),
      info_(Limited(backend.info(), options)),
      options_(options),
      queue_(queue),
      clock_(clock),
      pool_(info_.total_pages),
      index_(pool_, info_.page_tokens, options.prefix),
      flights_(info_.batches_in_flight),
      lanes_(info_, index_, flights_, time_),
      states_(lanes_.states()),
      memory_(options.memory, info_, pool_, lanes_, market_, time_),
      mover_(backend, info_, clock, lanes_, options.memory) {
  if (options.memory.swap_pages > 0 && info_.page_bytes > 0) {
    memory_.SetSwap([this](const Lane& lane) { return mover_.SwapOut(lane); });
  }
}

void StepLoop::Run() {
  while (!queue_.closed()) {
    if (const std::optional<Pause> pause = RunOnce()) Wait(*pause);
  }
  while (flights_.any_in_flight()) FinishOldest();
  if (meanwhile_) meanwhile_->End();
}

std::optional<StepLoop::Pause> StepLoop::RunOnce() {
  DrainCommands();
  if (queue_.closed()) return Pause{};
  mover_.Move();
  Assemble();
  if (!flights_.any_in_flight()) {
    if (suspension_due_) ForceSuspension();
    if (flights_.next().empty()) {
      // A lane that returned without a batch may be waiting for its read by now.
      if (mover_.has_work()) return std::nullopt;
      return Idle();
    }
    if (const std::optional<Pause> hold = Hold()) return hold;
    Submit();
  }
  while (BoardAhead()) {
    ++steps_ahead_;
    Submit();
  }
  FinishOldest();
  return std::nullopt;
}

void StepLoop::DrainCommands() {
  if (!queue_.Drain(drained_)) return;
  SetTime(clock_.NowNs());
  for (Command& command : drained_.commands) {
    std::visit([this](auto& kind) { Apply(std::move(kind)); }, command);
  }
  // After the commands: one of them may have created the sequence.
  for (const auto& [sequence, bids] : drained_.bids) lanes_.Bid(sequence, bids);
  drained_.commands.clear();
}

void StepLoop::Apply(command::OpenAccount&& command) {
  market_.Open(command.account, command.endowment_pages, std::move(command.view));
}

void StepLoop::Apply(command::CloseAccount&& command) {
  market_.Close(command.account);
}

void StepLoop::Apply(command::UseMeanwhile&& command) {
  meanwhile_ = std::move(command.meanwhile);
  meanwhile_->Begin();
  backend_.SetMeanwhile(meanwhile_);
}

std::optional<StepLoop::Pause> StepLoop::Hold() {
  const Cohort& cohort = states_.cohort();
  // Without peers to wait for, which is how a lone stream runs, not even the clock is read.
  if (cohort.woken() == 0 || options_.batch_policy == BatchPolicy::kGreedy) return std::nullopt;
  const int64_t now_ns = clock_.NowNs();
  if (!gathering_since_ns_) gathering_since_ns_ = now_ns;
  const Gathering gathering = {
      .waiting = static_cast<uint32_t>(flights_.next().members.size()),
      .most = info_.max_batch_members,
      .woken = cohort.woken(),
      .prompt = cohort.prompt(),
      .waited_ns = now_ns - *gathering_since_ns_,
      .last_latency_ns = time_.last_latency_ns,
  };
  const int64_t hold_ns = HoldNs(options_.batch_policy, gathering);
  if (hold_ns == 0) return std::nullopt;
  return Pause{.timeout = std::chrono::nanoseconds(hold_ns),
               .commands = PeersToWaitFor(options_.batch_policy, gathering),
               .spin = meanwhile_ != nullptr};
}

// Submits the next batch, and uses the time that the device takes to begin the one after it.
void StepLoop::Submit() {
  if (meanwhile_) meanwhile_->HandOver();
  starving_since_ns_.reset();
  gathering_since_ns_.reset();
  states_.cohort().BeginRound();
  Flight& flight = flights_.next();
  flight.submitted_ns = clock_.NowNs();
  for (const Flight::Member& member : flight.members) {
    if (member.lane->phase == Phase::kBoarded) states_.Launch(*member.lane);
  }
  flight.ticket = backend_.Submit(flight.batch);
  flights_.Launch();
  DrainCommands();
  Assemble();
}

void StepLoop::FinishOldest() {
  Flight& flight = flights_.oldest();
  Result<BatchOutput> output = flight.ticket ? backend_.Wait(*flight.ticket)
                                             : std::unexpected(std::move(flight.ticket.error()));
  ++steps_;
  tokens_ += flight.batch.tokens.size();
  const int64_t end_ns = clock_.NowNs();
  time_.last_latency_ns = end_ns - std::max(flight.submitted_ns, last_end_ns_);
  last_end_ns_ = end_ns;
  counts_.last_step_seconds.store(static_cast<double>(time_.last_latency_ns) * 1e-9,
                                  std::memory_order_relaxed);
  mover_.AddStep(time_.last_latency_ns, flight.batch.tokens.size());
  row_price_.Add(flight.batch.tokens.size(), time_.last_latency_ns);
  time_.row_price = row_price_.Of(flight.members.size());
  SetTime(end_ns);
  // Passes that are expensive to read leave most of the time to others, if there are any.
  if (flight.reads_much) reading_again_ns_ = end_ns + kTimeForOthers * time_.last_latency_ns;
  Settle(flight, std::move(output));
  flights_.RemoveOldest();
  suspension_due_ |= options_.suspend_every_steps > 0 && steps_ % options_.suspend_every_steps == 0;
  TickMarket();
  ExpireRequests();
  Publish();
}

bool StepLoop::NextIsFull() const {
  const Flight& flight = flights_.next();
  return flight.members.size() >= info_.max_batch_members ||
         flight.batch.tokens.size() >= info_.max_batch_tokens;
}

void StepLoop::Assemble() {
  AdoptCached();
  may_go_ahead_ = ServeOverdue();
  if (!may_go_ahead_) return;
  // Every iteration but the last takes the pages of at least one lane.
  while (!states_.ready().empty()) {
    const bool choose = memory_.Select(allowed_);
    if (!choose) allowed_.assign(states_.ready().size(), true);
    PlanAndBoard();
    if (NextIsFull() || states_.ready().empty() || (!choose && !short_of_pages_)) return;
    may_go_ahead_ = false;
    // While a batch is in flight, its lanes cannot be evicted, and it may be over soon.
    if (flights_.any_in_flight()) return;
    if (!memory_.MakeRoom(flights_.next().empty())) return;
  }
}

bool StepLoop::ServeOverdue() {
  Lane* const lane = memory_.Overdue();
  if (lane == nullptr) return true;
  if (flights_.any_in_flight()) return false;  // lanes in flight cannot be evicted
  if (!memory_.MakeRoomFor(*lane)) return true;
  if (lane->suspended()) {
    const bool is_stored = lane->parked->stored != nullptr;
    states_.Return(*lane);
    if (is_stored) return false;  // the next round moves its pages
  }
  allowed_.clear();
  for (const Lane* ready : states_.ready()) allowed_.push_back(ready == lane);
  PlanAndBoard();
  return true;
}

// Waiting for other passes to make the pages of a short prompt is not worth it.
bool StepLoop::MayFindWholePages(const ScheduledPass& pass) const {
  const uint32_t ahead = pass.unread().size();
  return ahead >= info_.page_tokens &&
         pass.rows_done + ahead >= kPagesToWaitFor * info_.page_tokens;
}

PlanRequest StepLoop::RequestOf(const Lane& lane) const {
  const ScheduledPass& pass = lane.next_pass();
  PlanRequest request{.tokens_left = pass.rows_left(),
                      .pages_needed = lane.PagesWanted(info_.page_tokens)};
  if (pass.read_costs.size() == pass.rows()) {
    request.read_costs = std::span(pass.read_costs).subspan(pass.rows_done);
  }
  if (!options_.prefix.share || pass.rows() < info_.page_tokens) return request;
  request.next_page = lane.kv.NextPage(pass.forward.rows(pass.rows_done, pass.rows_left()));
  // As AdoptCached would take it.
  request.may_wait = request.next_page != 0 && pass.forward.attention.empty() &&
                     lane.kv.tokens() % info_.page_tokens == 0 && MayFindWholePages(pass);
  return request;
}

void StepLoop::PlanAndBoard() {
  Flight& flight = flights_.next();
  std::vector<Lane*>& ready = states_.ready();
  requests_.clear();
  asked_.clear();
  for (uint32_t i = 0; i < ready.size(); ++i) {
    if (!allowed_[i]) continue;
    const PlanRequest request = RequestOf(*ready[i]);
    if (request.may_wait && flights_.Make(request)) continue;
    requests_.push_back(request);
    asked_.push_back(i);
  }
  const PlanBudget budget = {
      .tokens = info_.max_batch_tokens - static_cast<uint32_t>(flight.batch.tokens.size()),
      .members = info_.max_batch_members - static_cast<uint32_t>(flight.members.size()),
      .pages_free = pool_.pages_free(),
      .expected_tokens = flights_.members_in_flight() + states_.cohort().prompt(),
      .reading = time_.now_ns < reading_again_ns_ ? 0 : limits::kReadingPerBatch,
      .device_idle = !flights_.any_in_flight() && flight.empty(),
  };
  Plan(requests_, budget, planned_);
  for (const Planned& planned : planned_) {
    Board(*std::exchange(ready[asked_[planned.request]], nullptr), planned.tokens);
    const uint64_t page = requests_[planned.request].next_page;
    if (page != 0) flight.pages_made.push_back(page);
    flight.reads_much |= !requests_[planned.request].read_costs.empty();
  }
  short_of_pages_ = false;
  if (planned_.size() == requests_.size() && !planned_.empty()) {
    std::erase(ready, nullptr);
    return;
  }
  for (size_t i = 0; i < requests_.size(); ++i) {
    if (ready[asked_[i]] == nullptr) continue;
    if (requests_[i].may_wait && flight.Makes(requests_[i])) continue;  // it will need fewer
    if (requests_[i].pages_needed > pool_.pages_free()) short_of_pages_ = true;
  }
  std::erase(ready, nullptr);
}

void StepLoop::AdoptCached() {
  if (!options_.prefix.share) return;
  std::vector<Lane*>& ready = states_.ready();
  adopted_.clear();
  for (Lane* const lane : ready) {
    if (lane->suspended()) continue;
    ScheduledPass& pass = lane->next_pass();
    if (pass.unread().size() == 0 || !pass.forward.attention.empty()) continue;
    pass.rows_done += lane->kv.Adopt(pass.unread());
    if (!MayFindWholePages(pass) && lane->PagesWanted(info_.page_tokens) < pool_.pages_free()) {
      pass.rows_done += lane->kv.AdoptBeginning(pass.unread());
    }
    if (pass.rows_left() == 0) adopted_.push_back(lane);
  }
  // This changes the list, but ends no lane that has a pass. Each lane has one pass ended in a
  // round: a sequence that queues thousands of such passes does not delay the others.
  for (Lane* const lane : adopted_) lanes_.EndAdopted(*lane);
}

void StepLoop::Board(Lane& lane, uint32_t rows) {
  Flight& flight = flights_.next();
  ScheduledPass& pass = lane.next_pass();
  const Forward& forward = pass.forward;
  Batch& batch = flight.batch;

  // All of the pass's pages with its first chunk; later chunks find them there.
  std::optional<PageCopy> copy;
  // Pages that a replay fills were paid for when they were first made.
  if (!lane.replay) {
    market_.ChargePages(lane.account, lane.kv.PagesNeeded(lane.rows_wanted()));
  }
  PIE_CHECK(lane.kv.Reserve(lane.rows_wanted(), copy));
  if (copy) batch.copies.push_back(*copy);

  const uint32_t kv_tokens = lane.kv.tokens();
  const auto pages = lane.kv.PagesOf(kv_tokens + rows);
  batch.members.push_back({
      .first_row = static_cast<uint32_t>(batch.tokens.size()),
      .rows = rows,
      .first_page = static_cast<uint32_t>(batch.pages.size()),
      .pages = static_cast<uint32_t>(pages.size()),
      .kv_tokens = kv_tokens,
      .pass_row = pass.rows_done,
      .seed = forward.seed,
      .attention = forward.attention.empty() ? nullptr : &forward.attention,
      .logit_mask = forward.logit_mask.empty() ? nullptr : &forward.logit_mask,
      .samples = forward.samples.empty() ? nullptr : &forward.samples,
      .draws = forward.draws.empty() ? nullptr : &forward.draws,
      .first_draw = forward.first_draw,
      .masks = forward.rules ? &forward.rules->masks() : nullptr,
      .adapter = forward.adapter_weights.get(),
      .zo_seed = forward.adapter.seed,
      .zo_sigma = forward.adapter.sigma,
  });
  const auto first = static_cast<std::ptrdiff_t>(pass.rows_done);
  const auto last = first + static_cast<std::ptrdiff_t>(rows);
  batch.tokens.insert(batch.tokens.end(), forward.tokens.begin() + first,
                      forward.tokens.begin() + last);
  batch.positions.insert(batch.positions.end(), forward.positions.begin() + first,
                         forward.positions.begin() + last);
  batch.pages.insert(batch.pages.end(), pages.begin(), pages.end());
  flight.members.push_back({.lane = &lane, .first_row = pass.rows_done, .rows = rows});

  lane.kv.Append(forward.rows(pass.rows_done, rows));
  pass.rows_done += rows;
  states_.Board(lane);
}

bool StepLoop::CanBoardAhead(const Lane& lane) const {
  if (lane.phase != Phase::kRunning || lane.replay || lane.dropped || lane.waiting() > 0) {
    return false;
  }
  const uint64_t capacity = uint64_t{info_.total_pages} * info_.page_tokens;
  return MayGoAhead(*lane.pass) &&
         lane.kv.tokens() < std::min<uint64_t>(info_.max_positions, capacity) &&
         lane.kv.PagesNeeded(1) <= pool_.pages_free();
}

// A batch that starts before the last one has run leaves out the lanes that come back when it has.
// It is worth it if there are none, or if the batch is full without them.
bool StepLoop::BoardAhead() {
  if (!flights_.has_room() || !may_go_ahead_ || memory_.contended() || suspension_due_)
    return false;
  if (!flights_.newest().ticket) return false;
  const Flight& newest = flights_.newest();
  Flight& next = flights_.next();
  const bool all = std::ranges::all_of(newest.members, [&](const Flight::Member& member) {
    return member.lane == nullptr || CanBoardAhead(*member.lane);
  });
  const bool fit = next.members.size() + newest.members.size() <= info_.max_batch_members &&
                   next.batch.tokens.size() + newest.members.size() <= info_.max_batch_tokens;
  const bool at_once = NextIsFull() || options_.batch_policy == BatchPolicy::kGreedy;
  if (!(all && fit) && !at_once) return false;
  for (uint32_t i = 0; i < newest.members.size() && !NextIsFull(); ++i) {
    Lane* const lane = newest.members[i].lane;
    if (lane != nullptr && CanBoardAhead(*lane)) BoardAhead(*lane, i);
  }
  return !next.empty();
}

// `source` is the lane's member in the newest batch in flight.
void StepLoop::BoardAhead(Lane& lane, uint32_t source) {
  Flight& flight = flights_.next();
  Batch& batch = flight.batch;
  ScheduledPass& pass = *lane.pass;
  const Forward& forward = pass.forward;
  const auto row = static_cast<uint32_t>(batch.tokens.size());
  const uint32_t position = forward.positions.back() + pass.ahead + 1;
  const uint32_t kv_tokens = lane.kv.tokens();
  const uint32_t new_pages = lane.kv.PagesNeeded(1);
  std::optional<PageCopy> copy;
  PIE_CHECK(lane.kv.Reserve(1, copy));
  if (copy) batch.copies.push_back(*copy);
  const auto pages = lane.kv.PagesOf(kv_tokens + 1);
  flight.members.push_back({.lane = &lane, .rows = 1, .unpaid_pages = new_pages});
  batch.members.push_back({
      .first_row = row,
      .rows = 1,
      .first_page = static_cast<uint32_t>(batch.pages.size()),
      .pages = static_cast<uint32_t>(pages.size()),
      .kv_tokens = kv_tokens,
      .seed = SeedAhead(pass),
      .logit_mask = forward.logit_mask.empty() ? nullptr : &forward.logit_mask,
      .samples = &forward.samples,
      .adapter = forward.adapter_weights.get(),
      .zo_seed = forward.adapter.seed,
      .zo_sigma = forward.adapter.sigma,
  });
  const uint32_t unknown = 0;
  batch.carried.push_back({.row = row, .batch = *flights_.newest().ticket, .member = source});
  batch.tokens.push_back(unknown);
  batch.positions.push_back(position);
  batch.pages.insert(batch.pages.end(), pages.begin(), pages.end());
  lane.kv.Append({.tokens = {&unknown, 1},
                  .positions = {&position, 1},
                  .masks = {},
                  .adapters = forward.adapters()});
  ++pass.ahead;
  pass.went_ahead = true;
}

void StepLoop::Settle(Flight& flight, Result<BatchOutput> output) {
  if (output && output->slots.size() != flight.members.size()) {
    output = Fail(Code::kInternal, "the device {} answered {} of {} members", info_.name,
                  output->slots.size(), flight.members.size());
  }
  if (!output) {
    for (const Flight::Member& member : flight.members) {
      if (member.lane != nullptr) lanes_.Break(*member.lane, output.error());
    }
    return;
  }
  for (const BatchOutput::Failure& failure : output->failures) {
    if (failure.member >= flight.members.size()) continue;
    Lane*& lane = flight.members[failure.member].lane;
    if (lane == nullptr) continue;
    Lane& failed = *std::exchange(lane, nullptr);
    failure.wrote_kv ? lanes_.FailChoice(failed, failure.error)
                     : lanes_.Break(failed, failure.error);
  }
  const auto lane_at = [&](size_t i) {
    return i < flight.members.size() ? flight.members[i].lane : nullptr;
  };
  for (size_t i = 0; i < 4; ++i) {
    if (const Lane* lane = lane_at(i)) Fetch(lane);
  }
  for (size_t i = 0; i < flight.members.size(); ++i) {
    if (const Lane* lane = lane_at(i + 4)) Fetch(lane);
    if (const Lane* lane = lane_at(i + 2)) Fetch(lane->pass.get());
    const Flight::Member& member = flight.members[i];
    if (member.lane == nullptr) continue;
    if (member.unpaid_pages > 0) {
      market_.ChargePages(member.lane->account, member.unpaid_pages);
    }
    lanes_.Settle(*member.lane, std::move(output->slots[i]), member.first_row, member.rows);
  }
}

StepLoop::Pause StepLoop::Idle() {
  const int64_t now_ns = clock_.NowNs();
  SetTime(now_ns);
  TickMarket();
  ExpireRequests();
  Publish();
  if (states_.ready().empty()) return {.spin = true};
  if (!starving_since_ns_ || starving_pages_free_ != pool_.pages_free()) {
    starving_since_ns_ = now_ns;
    starving_pages_free_ = pool_.pages_free();
  }
  const int64_t left_ns = *starving_since_ns_ + options_.page_wait_ms * 1'000'000LL - now_ns;
  if (left_ns > 0) return {.timeout = std::chrono::nanoseconds(left_ns), .spin = true};
  FailOldest();
  return {.timeout = std::chrono::nanoseconds(0)};
}

bool StepLoop::RunGuests(const Pause& pause) {
  if (!meanwhile_) return false;
  const int64_t start_ns = clock_.NowNs();
  while (meanwhile_->RunOne()) {
    if (queue_.Holds(pause.commands)) return true;
    if (pause.timeout && clock_.NowNs() - start_ns >= pause.timeout->count()) return true;
  }
  return false;
}

void StepLoop::Wait(const Pause& pause) {
  if (RunGuests(pause)) return;
  if (pause.spin) {
    int64_t spin_ns = options_.spin_us * 1'000LL;
    if (pause.timeout) spin_ns = std::min<int64_t>(spin_ns, pause.timeout->count());
    const int64_t spin_end_ns = clock_.NowNs() + spin_ns;
    do {
      for (int i = 0; i < 32; ++i) {
        if (queue_.Holds(pause.commands)) return;
        CpuRelax();
      }
      // Guests need a core to come back on.
      std::this_thread::yield();
    } while (clock_.NowNs() < spin_end_ns);
  }
  if (!pause.timeout) CheckWhileIdle();
  queue_.Sleep(pause.timeout, pause.commands);
}

void StepLoop::CheckWhileIdle() {
  constexpr int64_t kPauseNs = 1'000'000'000;
  // Checking this number of pages takes about a millisecond.
  constexpr uint64_t kMostPages = 16'384;
  constexpr uint64_t kMostSequences = 1'024;
  const int64_t now_ns = clock_.NowNs();
  if (now_ns - last_check_ns_ < kPauseNs || lanes_.sequences() > kMostSequences ||
      pool_.pages_used() + pool_.pages_cached() > kMostPages) {
    return;
  }
  last_check_ns_ = now_ns;
  const Status status = CheckIntegrity();
  counts_.integrity_checks.fetch_add(1, std::memory_order_relaxed);
  if (status) return;
  counts_.integrity_failures.fetch_add(1, std::memory_order_relaxed);
  fmt::print(stderr, "pie: a bug in the scheduler: {}\n", status.error().text);
}

// Takes the pages of a random lane, as if memory had been short. Lanes that came back and have not
// run since keep theirs, so that every lane gets on.
void StepLoop::ForceSuspension() {
  suspension_due_ = false;
  std::vector<Lane*> candidates;
  lanes_.ForEach([&](Lane& lane) {
    const bool waits = lane.phase == Phase::kReady || lane.phase == Phase::kIdle;
    if (waits && lane.kv.tokens() > 0 && !lane.keeps_pages()) candidates.push_back(&lane);
  });
  if (candidates.empty()) return;
  std::ranges::sort(candidates, {}, [](const Lane* lane) { return lane->id.value; });
  memory_.SuspendLane(*candidates[Mix(steps_) % candidates.size()]);
  Assemble();
}

void StepLoop::TickMarket() {
  constexpr int64_t kTickNs = 1'000'000;  // between two ticks: an auction looks at every page
  if (!memory_.contended() && market_.price() == 0) return;
  constexpr int64_t kShareOfTime = 20;  // auctions take at most 1 / kShareOfTime of the time
  if (time_.now_ns - last_tick_ns_ < std::max(kTickNs, kShareOfTime * auction_ns_)) return;
  last_tick_ns_ = time_.now_ns;
  if (memory_.contended()) {
    const int64_t begin_ns = clock_.NowNs();
    HoldAuction(lanes_, memory_, pool_, info_.page_tokens, market_);
    auction_ns_ = clock_.NowNs() - begin_ns;
  } else {
    market_.Tick(0, {});
  }
}

void StepLoop::ExpireRequests() {
  constexpr int64_t kLookNs = 100'000'000;
  const int64_t now_ns = time_.now_ns;
  if (options_.request_timeout_ms == 0 || now_ns - last_expiry_ns_ < kLookNs) return;
  last_expiry_ns_ = now_ns;
  const int64_t timeout_ns = options_.request_timeout_ms * 1'000'000LL;
  while (true) {
    const auto expired = std::ranges::find_if(states_.ready(), [&](const Lane* lane) {
      return now_ns - lane->ready_since_ns >= timeout_ns;
    });
    if (expired == states_.ready().end()) return;
    lanes_.Break(**expired, {Code::kExhausted,
                             fmt::format("the pass has waited {} s for the device, which is too "
                                         "busy; try again later, or raise request_timeout_secs",
                                         options_.request_timeout_ms / 1'000)});
  }
}

// Fails one lane, which gives its pages to the others, rather than let all wait for ever.
void StepLoop::FailOldest() {
  Lane& lane = *states_.ready().front();
  const uint32_t needed = lane.PagesWanted(info_.page_tokens);
  lanes_.Break(lane,
               {Code::kExhausted,
                fmt::format("out of KV pages: the pass needs {}, {} of {} are free, {} are held by "
                            "{} sequences; drop or truncate some contexts",
                            needed, pool_.pages_free(), pool_.pages_total(), pool_.pages_used(),
                            lanes_.holders())});
}

Status StepLoop::CheckIntegrity() const {
  PIE_RETURN_IF_ERROR(lanes_.CheckIntegrity());
  if (market_.Holds()) return {};
  return Fail(Code::kInternal, "balances are {} in all, {} endowed - {} spent - {} closed",
              market_.Total(), market_.endowed(), market_.spent(), market_.closed());
}

void StepLoop::Publish() {
  if (options_.check_integrity) {
    const Status status = CheckIntegrity();
    if (!status) fmt::print(stderr, "{}\n", status.error().text);
    PIE_CHECK(status.has_value());
  }
  constexpr auto kRelaxed = std::memory_order_relaxed;
  counts_.sequences.store(lanes_.sequences(), kRelaxed);
  counts_.pages_used.store(pool_.pages_used(), kRelaxed);
  counts_.pages_restored.store(mover_.pages_restored(), kRelaxed);
  counts_.pages_cached.store(pool_.pages_cached(), kRelaxed);
  counts_.prefix_hits.store(index_.stats().hits, kRelaxed);
  counts_.prefix_tokens_saved.store(index_.stats().tokens_saved, kRelaxed);
  counts_.prefix_merged.store(index_.stats().merged, kRelaxed);
  counts_.prefix_evictions.store(index_.stats().evictions, kRelaxed);
  counts_.suspensions.store(states_.suspensions(), kRelaxed);
  counts_.replayed_tokens.store(states_.replayed_tokens(), kRelaxed);
  counts_.pages_swapped.store(mover_.pages_swapped(), kRelaxed);
  counts_.price.store(static_cast<double>(market_.price()) / kCredit, kRelaxed);
  counts_.queued.store(lanes_.passes(), kRelaxed);
  counts_.steps.store(steps_, kRelaxed);
  counts_.steps_ahead.store(steps_ahead_, kRelaxed);
  counts_.tokens.store(tokens_, kRelaxed);
  counts_.drafted.store(lanes_.drafted(), kRelaxed);
  counts_.confirmed.store(lanes_.confirmed(), kRelaxed);
  lanes_.SignalFences();
}

SchedulerStats StepLoop::stats() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {
      .sequences = counts_.sequences.load(kRelaxed),
      .pages_used = counts_.pages_used.load(kRelaxed),
      .pages_total = pool_.pages_total(),
      .queued = counts_.queued.load(kRelaxed),
      .steps = counts_.steps.load(kRelaxed),
      .steps_ahead = counts_.steps_ahead.load(kRelaxed),
      .tokens = counts_.tokens.load(kRelaxed),
      .drafted = counts_.drafted.load(kRelaxed),
      .confirmed = counts_.confirmed.load(kRelaxed),
      .pages_cached = counts_.pages_cached.load(kRelaxed),
      .prefix = {.hits = counts_.prefix_hits.load(kRelaxed),
                 .tokens_saved = counts_.prefix_tokens_saved.load(kRelaxed),
                 .merged = counts_.prefix_merged.load(kRelaxed),
                 .evictions = counts_.prefix_evictions.load(kRelaxed)},
      .pages_restored = counts_.pages_restored.load(kRelaxed),
      .suspensions = counts_.suspensions.load(kRelaxed),
      .replayed_tokens = counts_.replayed_tokens.load(kRelaxed),
      .pages_swapped = counts_.pages_swapped.load(kRelaxed),
      .price = counts_.price.load(kRelaxed),
      .last_step_seconds = counts_.last_step_seconds.load(kRelaxed),
      .integrity_checks = counts_.integrity_checks.load(kRelaxed),
      .integrity_failures = counts_.integrity_failures.load(kRelaxed),
  };
}

}  // namespace pie
