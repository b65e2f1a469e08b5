#include "sched/boarding.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/limits.h"

namespace pie {
namespace {

// Minimum number of reusable pages for which a pass waits on another pass's prefix.
constexpr uint32_t kPagesToWaitFor = 4;
// Cached pages that one user's passes adopt in a round. Finding a page takes about a microsecond;
// a prompt of a million tokens, or thousands of prompts, must not delay the next batch of others.
constexpr uint32_t kPagesAdopted = 1'024;
// A program that waits for a token asks for the next one within this time.
constexpr int64_t kOthersReturnNs = 100'000'000;
// After this many looks at lanes, a batch that is not empty takes no further pages from lanes. One
// look takes some 100 ns. With up to a hundred lanes, it makes no difference.
constexpr uint64_t kLooksPerBatch = 16'384;

// The users of some passes, as far as it matters whether others have different ones.
class UsersOf {
 public:
  void Add(uint64_t user) {
    several_ |= any_ && user != user_;
    any_ = true;
    user_ = user;
  }
  bool DifferFrom(const UsersOf& others) const {
    return any_ && others.any_ && (several_ || others.several_ || user_ != others.user_);
  }

 private:
  bool any_ = false;
  bool several_ = false;
  uint64_t user_ = 0;
};

}  // namespace

bool Boarding::NextIsFull() const {
  const Flight& flight = flights_.next();
  return flight.members.size() >= info_.max_batch_members ||
         flight.batch.tokens.size() >= info_.max_batch_tokens;
}

void Boarding::Assemble() {
  AdoptCached();
  may_go_ahead_ = ServeOverdue();
  // While the batch has no room for another lane, there is no need to look at the waiting lanes.
  if (!may_go_ahead_ || NextIsFull()) return;
  const uint64_t looks = memory_.looks();
  // Every iteration but the last takes the pages of at least one lane.
  while (!states_.ready().empty()) {
    const bool choose = memory_.Select(allowed_);
    if (!choose) allowed_.assign(states_.ready().size(), true);
    if (!LeaveOutAdopting()) return;
    PlanAndBoard();
    if (NextIsFull() || states_.ready().empty() || (!choose && !short_of_pages_)) return;
    may_go_ahead_ = false;
    // While a batch is in flight, its lanes cannot be evicted, and it may be over soon.
    if (flights_.any_in_flight()) return;
    const bool empty = flights_.next().empty();
    if (!empty && memory_.looks() - looks > kLooksPerBatch) return;
    if (!memory_.MakeRoom(empty)) return;
  }
}

bool Boarding::ServeOverdue() {
  Lane* const lane = memory_.Overdue();
  if (lane == nullptr || lane->adopting) return true;
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
bool Boarding::MayFindWholePages(const ScheduledPass& pass) const {
  const uint32_t ahead = pass.unread().size();
  return ahead >= info_.page_tokens &&
         pass.rows_done + ahead >= kPagesToWaitFor * info_.page_tokens;
}

PlanRequest Boarding::RequestOf(const Lane& lane) const {
  const ScheduledPass& pass = lane.next_pass();
  PlanRequest request{.tokens_left = pass.rows_left(),
                      .pages_needed = lane.PagesWanted(info_.page_tokens)};
  if (pass.read_costs.size() == pass.rows()) {
    request.read_costs = std::span(pass.read_costs).subspan(pass.rows_done);
  }
  request.further_reading = pass.further_reading;
  if (!options_.prefix.share || pass.rows() < info_.page_tokens) return request;
  // A pass with masks finds no pages by their content, and its masks may be long to hash.
  if (!pass.forward.attention.empty()) return request;
  request.next_page = lane.kv.NextPage(pass.forward.rows(pass.rows_done, pass.rows_left()));
  // AdoptCached takes pages under the same conditions.
  request.may_wait = request.next_page != 0 && lane.kv.tokens() % info_.page_tokens == 0 &&
                     MayFindWholePages(pass);
  return request;
}

void Boarding::PlanAndBoard() {
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
  PlanBudget budget = {
      .tokens = info_.max_batch_tokens - static_cast<uint32_t>(flight.batch.tokens.size()),
      .members = info_.max_batch_members - static_cast<uint32_t>(flight.members.size()),
      .pages_free = pool_.pages_free(),
      .expected_tokens = flights_.members_in_flight() + states_.cohort().prompt(),
      .reading = time_.now_ns < reading_again_ns_ ? 0 : limits::kReadingPerBatch,
      .device_idle = !flights_.any_in_flight() && flight.empty(),
  };
  if (LongPassDelaysOthers()) {
    budget.long_tokens = std::max(info_.max_batch_tokens / kLongShare, 1U);
  }
  const bool took_turns = TakeTurns(budget);
  Plan(requests_, budget, planned_);
  for (const Planned& planned : planned_) {
    if (took_turns) turns_.Add(users_[order_[planned.request]], planned.tokens);
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

bool Boarding::LongPassDelaysOthers() {
  UsersOf longs;
  UsersOf shorts;
  const Flight& next = flights_.next();
  const auto is_long = [](uint32_t tokens) { return tokens > kShortTokens; };
  if (std::ranges::none_of(requests_, is_long, &PlanRequest::tokens_left) &&
      std::ranges::none_of(next.members, is_long, &Flight::Member::rows)) {
    return false;
  }
  const auto add = [&](const Lane* lane, uint32_t tokens) {
    if (lane != nullptr) (is_long(tokens) ? longs : shorts).Add(market_.user(lane->account));
  };
  for (size_t i = 0; i < requests_.size(); ++i) {
    add(states_.ready()[asked_[i]], requests_[i].tokens_left);
  }
  for (const Flight::Member& member : next.members) add(member.lane, member.rows);
  if (flights_.any_in_flight()) {
    for (const Flight::Member& member : flights_.newest().members) add(member.lane, member.rows);
  }
  if (longs.DifferFrom(shorts)) delayed_others_ns_ = time_.now_ns;
  return delayed_others_ns_ && time_.now_ns - *delayed_others_ns_ <= kOthersReturnNs;
}

bool Boarding::TakeTurns(const PlanBudget& budget) {
  uint64_t tokens = 0;
  uint64_t reading = 0;
  for (const PlanRequest& request : requests_) {
    tokens += request.tokens_left;
    reading += request.further_reading;
  }
  if (requests_.size() <= budget.members && tokens <= budget.tokens &&
      reading <= budget.further_reading) {
    return false;
  }
  users_.clear();
  AccountId account;
  uint64_t user = 0;
  for (const uint32_t index : asked_) {
    const AccountId next = states_.ready()[index]->account;
    if (users_.empty() || next != account) user = market_.user(next);
    account = next;
    users_.push_back(user);
  }
  if (!turns_.Order(users_, order_)) return false;
  ordered_requests_.clear();
  ordered_asked_.clear();
  for (const uint32_t request : order_) {
    ordered_requests_.push_back(requests_[request]);
    ordered_asked_.push_back(asked_[request]);
  }
  requests_.swap(ordered_requests_);
  asked_.swap(ordered_asked_);
  return true;
}

void Boarding::AdoptCached() {
  if (!options_.prefix.share) return;
  std::vector<Lane*>& ready = states_.ready();
  adopted_.clear();
  pages_adopted_.clear();
  adopting_ = false;
  for (Lane* const lane : ready) {
    lane->adopting = false;
    if (lane->suspended()) continue;
    const ScheduledPass& pass = lane->next_pass();
    if (pass.unread().size() == 0 || !pass.forward.attention.empty()) continue;
    AdoptPages(*lane);
    if (pass.rows_left() == 0) adopted_.push_back(lane);
  }
  // All of them leave the list at once, in which they have the same order: one by one, thousands of
  // lanes would cost time in proportion to the square of their number.
  auto next = adopted_.begin();
  std::erase_if(ready, [&](const Lane* lane) {
    if (next == adopted_.end() || *next != lane) return false;
    ++next;
    return true;
  });
  // This changes the list, but ends no lane that has a pass. At most one pass of each lane ends in
  // a round, so a sequence that queues thousands of such passes does not delay the others.
  for (Lane* const lane : adopted_) lanes_.EndAdopted(*lane);
}

void Boarding::AdoptPages(Lane& lane) {
  ScheduledPass& pass = lane.next_pass();
  const uint32_t before = pass.rows_done;
  if (pass.unread().size() >= info_.page_tokens) {
    uint32_t& pages = pages_adopted_[market_.user(lane.account)];
    const uint32_t adopted = lane.kv.Adopt(pass.unread(), kPagesAdopted - pages);
    pass.rows_done += adopted;
    pages += adopted / info_.page_tokens;
    lane.adopting = pages == kPagesAdopted && pass.unread().size() >= info_.page_tokens;
    adopting_ |= lane.adopting;
  }
  if (!lane.adopting && !MayFindWholePages(pass) &&
      lane.PagesWanted(info_.page_tokens) < pool_.pages_free()) {
    pass.rows_done += lane.kv.AdoptBeginning(pass.unread());
  }
  if (pass.forward.cached_tokens && !pass.has_followed()) {
    pass.forward.cached_tokens->fetch_add(pass.rows_done - before, std::memory_order_relaxed);
  }
}

bool Boarding::LeaveOutAdopting() {
  if (!adopting_) return true;
  const std::vector<Lane*>& ready = states_.ready();
  bool any = false;
  for (size_t i = 0; i < ready.size(); ++i) {
    if (ready[i]->adopting) allowed_[i] = false;
    any |= allowed_[i];
  }
  return any;
}

void Boarding::Board(Lane& lane, uint32_t rows) {
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

bool Boarding::CanBoardAhead(const Lane& lane) const {
  if (lane.phase != Phase::kRunning || lane.replay || lane.dropped || lane.waiting() > 0) {
    return false;
  }
  const uint64_t capacity = uint64_t{info_.total_pages} * info_.page_tokens;
  return MayGoAhead(*lane.pass) &&
         lane.kv.tokens() < std::min<uint64_t>(info_.max_positions, capacity) &&
         lane.kv.PagesNeeded(1) <= pool_.pages_free();
}

// A batch that starts before the last one has run leaves out the lanes that need results of the
// last one. Starting it early pays if there are no such lanes, or if the batch is full without
// them.
bool Boarding::BoardAhead() {
  if (!flights_.has_room() || !may_go_ahead_ || memory_.contended()) return false;
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
void Boarding::BoardAhead(Lane& lane, uint32_t source) {
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

}  // namespace pie
