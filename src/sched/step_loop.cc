#include "sched/step_loop.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>
#include <utility>

#include "backend/contain.h"
#include "base/cpu_relax.h"
#include "base/random.h"
#include "sched/auction.h"

namespace pie {
namespace {

// Prefetches an object that was last used before the device went through all of its weights.
template <class T>
void Fetch(const T* object) {
  const auto* bytes = reinterpret_cast<const char*>(object);
  for (size_t i = 0; i < sizeof(T); i += 64) __builtin_prefetch(bytes + i, 1);
}

// After a batch that was expensive to read, the next such batch waits this many times as long as
// that one took.
constexpr int64_t kTimeForOthers = 3;

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
      lanes_(info_, index_, flights_, time_, queue),
      states_(lanes_.states()),
      memory_(options.memory, info_, pool_, lanes_, market_, time_),
      boarding_(info_, options_, pool_, flights_, lanes_, market_, memory_, time_),
      mover_(backend, info_, clock, lanes_, options.memory),
      viewer_(pool_, lanes_, market_, info_.page_tokens, clock),
      crew_(options.crew_threads.value_or(info_.leaves_processors ? Crew::Size() : 0)) {
  stats_.pages_total = pool_.pages_total();
  board_.Write(stats_);
  if (options.memory.swap_pages > 0 && info_.page_bytes > 0) {
    memory_.SetSwap([this](const Lane& lane) { return mover_.SwapOut(lane); });
  }
}

void StepLoop::Run() {
  while (!queue_.closed()) {
    try {
      if (const std::optional<Pause> pause = RunOnce()) Wait(*pause);
    } catch (const std::exception& error) {
      BreakAll({Code::kInternal, fmt::format("the scheduler failed: {}", error.what())});
    }
  }
  while (flights_.any_in_flight()) FinishOldest();
  if (meanwhile_) meanwhile_->End();
}

// An exception was thrown in the middle of a round, for example because memory ran out. Its cause
// is unknown, so every pass that runs or waits to run fails. Sequences that wait for nothing, and
// those that are made from now on, work.
void StepLoop::BreakAll(const Error& error) {
  fmt::print(stderr, "pie: {}\n", error.text);
  for (; flights_.any_in_flight(); flights_.RemoveOldest()) {
    const Flight& flight = flights_.oldest();
    if (flight.ticket) {
      std::ignore = Contain(info_.name, [&] { return backend_.Wait(*flight.ticket); });
    }
  }
  flights_.next().Clear();
  lanes_.BreakAll(error);
  Publish();
}

std::optional<StepLoop::Pause> StepLoop::RunOnce() {
  DrainCommands();
  if (queue_.closed()) return Pause{};
  EndLateDrafts();
  mover_.Move();
  boarding_.Assemble();
  if (!flights_.any_in_flight()) {
    if (suspension_due_) ForceSuspension();
    if (flights_.next().empty()) {
      // A lane that returned without a batch may be waiting for its read by now.
      if (mover_.has_work() || boarding_.adopting() || viewer_.Work()) return std::nullopt;
      return Idle();
    }
    if (const std::optional<Pause> hold = Hold()) return hold;
    Submit();
  }
  while (!suspension_due_ && boarding_.BoardAhead()) {
    ++stats_.steps_ahead;
    Submit();
  }
  viewer_.Work();  // while the device runs
  FinishOldest();
  return std::nullopt;
}

void StepLoop::DrainCommands() {
  if (!queue_.Drain(drained_)) return;
  unchecked_ = true;
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
  crew_.Begin(meanwhile_);
  backend_.SetMeanwhile(meanwhile_);
}

void StepLoop::EndLateDrafts() {
  if (states_.drafting().empty()) return;
  SetTime(clock_.NowNs());
  lanes_.EndLateDrafts();
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
  flight.ticket = Contain(info_.name, [&] { return backend_.Submit(flight.batch); });
  flights_.Launch();
  DrainCommands();
  boarding_.Assemble();
}

void StepLoop::ExpectGuests(const Flight& flight) {
  if (!crew_.Helps(guests_woken_)) return;
  const int64_t begin_ns = std::max(flight.submitted_ns, last_end_ns_);
  crew_.Expect(guests_woken_,
               std::chrono::nanoseconds(begin_ns + time_.last_latency_ns - clock_.NowNs()));
}

void StepLoop::FinishOldest() {
  Flight& flight = flights_.oldest();
  ExpectGuests(flight);
  Result<BatchOutput> output = std::unexpected(Error{});
  if (flight.ticket) {
    output = Contain(info_.name, [&] { return backend_.Wait(*flight.ticket); });
  } else {
    output = std::unexpected(std::move(flight.ticket.error()));
  }
  ++stats_.steps;
  stats_.tokens += flight.batch.tokens.size();
  const int64_t end_ns = clock_.NowNs();
  const int64_t begin_ns = std::max(flight.submitted_ns, last_end_ns_);
  time_.last_latency_ns = end_ns - begin_ns;
  viewer_.AddBatch(begin_ns, end_ns, flight.members.size(), flight.batch.tokens.size());
  last_end_ns_ = end_ns;
  stats_.last_step_seconds = static_cast<double>(time_.last_latency_ns) * 1e-9;
  mover_.AddStep(time_.last_latency_ns, flight.batch.tokens.size());
  row_price_.Add(flight.batch.tokens.size(), time_.last_latency_ns);
  time_.row_price = row_price_.Of(flight.members.size());
  SetTime(end_ns);
  if (crew_.Helps(guests_woken_)) crew_.Call(guests_woken_);
  Settle(flight, std::move(output));
  // Passes that are expensive to read leave most of the time to others, if there are any. Large
  // masks are copied and hashed when the batch has run.
  if (flight.reads_much) {
    const int64_t now_ns = clock_.NowNs();
    boarding_.DelayReading(now_ns + kTimeForOthers * (now_ns - begin_ns));
  }
  guests_woken_ = states_.cohort().woken();
  flights_.RemoveOldest();
  suspension_due_ |=
      options_.suspend_every_steps > 0 && stats_.steps % options_.suspend_every_steps == 0;
  TickMarket();
  ExpireRequests();
  Publish();
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
    Flight::Member& member = flight.members[failure.member];
    if (member.lane == nullptr) continue;
    Lane& failed = *std::exchange(member.lane, nullptr);
    if (lanes_.RunAgain(failed, member.first_row, member.rows)) continue;
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
  if (states_.ready().empty()) return {.timeout = lanes_.DraftPatience(), .spin = true};
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
  queue_.Sleep(pause.timeout ? pause.timeout : CheckWhileIdle(), pause.commands);
}

std::optional<std::chrono::nanoseconds> StepLoop::CheckWhileIdle() {
  constexpr int64_t kPauseNs = 1'000'000'000;
  if (!unchecked_) return std::nullopt;
  const int64_t now_ns = clock_.NowNs();
  const int64_t left_ns = last_check_ns_.value_or(now_ns - kPauseNs) + kPauseNs - now_ns;
  if (left_ns > 0) return std::chrono::nanoseconds(left_ns);
  last_check_ns_ = now_ns;
  const Status status = CheckIntegrity(Interruption([this] { return queue_.Holds(1); }));
  if (!status && status.error().code == Code::kCancelled) return std::nullopt;
  unchecked_ = false;
  ++stats_.integrity_checks;
  if (!status) {
    ++stats_.integrity_failures;
    fmt::print(stderr, "pie: a bug in the scheduler: {}\n", status.error().text);
  }
  board_.Write(stats_);
  return std::nullopt;
}

// Takes the pages of a random lane, as if memory had been short. Lanes that came back and have not
// run since keep theirs, so that every lane gets on.
void StepLoop::ForceSuspension() {
  suspension_due_ = false;
  std::vector<Lane*> candidates;
  lanes_.ForEach([&](Lane& lane) {
    const bool waits = lane.phase == Phase::kReady || lane.phase == Phase::kIdle ||
                       lane.phase == Phase::kDrafting || lane.phase == Phase::kChecking ||
                       lane.phase == Phase::kMasking;
    if (waits && lane.kv.tokens() > 0 && !lane.keeps_pages()) candidates.push_back(&lane);
  });
  if (candidates.empty()) return;
  std::ranges::sort(candidates, {}, [](const Lane* lane) { return lane->id.value; });
  memory_.SuspendLane(*candidates[Mix(stats_.steps) % candidates.size()]);
  boarding_.Assemble();
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
  // Thousands of passes may expire together. Ending one takes time in proportion to the passes
  // that wait, so the others follow after the next steps.
  constexpr size_t kMostAtOnce = 64;
  const int64_t now_ns = time_.now_ns;
  if (options_.request_timeout_ms == 0 || now_ns - last_expiry_ns_ < kLookNs) return;
  const int64_t timeout_ns = options_.request_timeout_ms * 1'000'000LL;
  const bool all = lanes_.BreakWaiting(
      now_ns - timeout_ns, kMostAtOnce,
      {Code::kExhausted, fmt::format("the pass has waited {} s for the device, which is too busy; "
                                     "try again later, or raise request_timeout_secs",
                                     options_.request_timeout_ms / 1'000)});
  if (all) last_expiry_ns_ = now_ns;
}

// Fails one lane, which gives its pages to the others. Otherwise all lanes would wait forever.
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

Status StepLoop::CheckIntegrity(const Interruption& interruption) const {
  PIE_RETURN_IF_ERROR(lanes_.CheckIntegrity(interruption));
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
  stats_.sequences = lanes_.sequences();
  stats_.pages_used = pool_.pages_used();
  stats_.queued = lanes_.passes();
  stats_.drafted = lanes_.drafted();
  stats_.confirmed = lanes_.confirmed();
  stats_.pages_cached = pool_.pages_cached();
  stats_.prefix = index_.stats();
  stats_.pages_restored = mover_.pages_restored();
  stats_.suspensions = states_.suspensions();
  stats_.looks = memory_.looks();
  stats_.replayed_tokens = states_.replayed_tokens();
  stats_.pages_swapped = mover_.pages_swapped();
  stats_.price = static_cast<double>(market_.price()) / kCredit;
  board_.Write(stats_);
  lanes_.SignalFences();
}

}  // namespace pie
