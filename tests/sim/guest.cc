#include "guest.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "backend/sampling.h"
#include "sched/pass.h"

namespace pie::sim {
namespace {

constexpr size_t kMostSequences = 4;
constexpr size_t kMostAsked = 3;

// Runs of false and true, written out.
std::vector<bool> Expand(const Brle& mask, size_t size) {
  std::vector<bool> bits;
  bool value = false;
  for (uint32_t run : mask) {
    bits.insert(bits.end(), run, value);
    value = !value;
  }
  bits.resize(size, false);
  return bits;
}

}  // namespace

uint32_t Guest::Greedy(const Slots& attended) const {
  return *Argmax(DummyLogits(device_.options(), attended), nullptr);
}

Status Guest::problem() const {
  if (!problem_.empty()) return Fail(Code::kInternal, "{}", problem_);
  for (const auto& asked : asked_) {
    if (!asked->problem.empty()) return Fail(Code::kInternal, "{}", asked->problem);
  }
  return {};
}

std::optional<int64_t> Guest::waits_since_ns() const {
  std::optional<int64_t> since;
  if (!asked_.empty()) since = asked_.front()->asked_ns;
  for (const auto& saving : saves_) since = std::min(since.value_or(INT64_MAX), saving->asked_ns);
  return since;
}

std::optional<int64_t> Guest::wakes_at_ns() const {
  const auto ended = [](const auto& asked) { return asked->destroyed; };
  if (std::ranges::any_of(asked_, ended) || std::ranges::any_of(saves_, ended)) {
    return clock_.NowNs();
  }
  const bool only_saves = actions_left_ == 0 && held_.empty() && !saves_.empty();
  if (over_ || only_saves || (waits_for_all_ && !asked_.empty()) || asked_.size() >= kMostAsked) {
    return std::nullopt;
  }
  return std::max(thinks_until_ns_, clock_.NowNs());
}

// Takes the answers that have come.
void Guest::Collect() {
  std::erase_if(asked_, [&](const std::shared_ptr<Asked>& asked) {
    if (!asked->destroyed) return false;
    longest_wait_ns_ = std::max(longest_wait_ns_, clock_.NowNs() - asked->asked_ns);
    if (!asked->problem.empty()) problem_ = asked->problem;
    if (!asked->result) {
      if (!asked->dropped) problem_ = "a pass was forgotten";
      return true;
    }
    const auto at = std::ranges::find(held_, asked->sequence, &Held::id);
    if (!*asked->result) {
      ++failures_;
      if (!options_.faults) problem_ = "a pass failed: " + asked->result->error().text;
      if (at != held_.end()) {
        Drop(static_cast<size_t>(at - held_.begin()));
      } else {
        DropAdapted(asked->sequence);
      }
      return true;
    }
    ++answers_;
    if (asked->chained) {
      if (at != held_.end()) at->slots = asked->slots;
    } else if (const uint32_t token = std::get<TokenSlot>((*asked->result)->at(0)).token;
               token != asked->expected) {
      problem_ = fmt::format("sequence {} gave {}, a recomputation gives {}", asked->sequence.value,
                             token, asked->expected);
    }
    return true;
  });
}

Status Guest::Act() {
  Collect();
  PIE_RETURN_IF_ERROR(CollectSaves());
  PIE_RETURN_IF_ERROR(problem());
  if (over_ || clock_.NowNs() < thinks_until_ns_) return {};
  if (waits_for_all_ && !asked_.empty()) return {};
  waits_for_all_ = false;
  if (actions_left_ == 0) {
    if (!asked_.empty() && !dice_.OneIn(4)) {
      waits_for_all_ = true;
      return {};
    }
    while (!held_.empty()) Drop(held_.size() - 1);
    while (!adapted_.empty()) DropAdapted(adapted_.back().id);
    waits_for_all_ = true;
    over_ = asked_.empty() && saves_.empty();
    return {};
  }
  if (asked_.size() >= kMostAsked) return {};
  --actions_left_;
  if (held_.empty()) Create();
  PIE_RETURN_IF_ERROR(Begin(dice_.Below(30)));
  waits_for_all_ |= dice_.OneIn(2);
  return {};
}

BidPlan Guest::RandomBids() {
  BidPlan bids{.idle = dice_.OneIn(5), .number = dice_.Below(1000)};
  if (dice_.OneIn(2)) bids.fixed = dice_.Of({0.0, 0.01, 1.0, 1000.0, -1.0});
  if (dice_.OneIn(2)) {
    bids.expected = {.steps = dice_.Of({0.0, 1.0, 30.0, 1e9}), .variation = dice_.Of({0.0, 1.0})};
  }
  return bids;
}

Status Guest::Begin(uint32_t action) {
  const bool room = held_.size() < kMostSequences;
  if (action == 0 && room) {
    Create();
  } else if (action == 1 && room) {
    Fork(Pick());
  } else if (action == 2) {
    Held& held = Pick();
    Truncate(held, dice_.Below(static_cast<uint32_t>(held.slots.size()) + 1));
  } else if (action == 3) {
    Drop(dice_.Below(static_cast<uint32_t>(held_.size())));
  } else if (action == 4 && options_.suspends) {
    queue_.Push(command::Suspend{Pick().id});
  } else if (action == 5) {
    const SequenceId sequence = Pick().id;
    queue_.Bid(sequence, RandomBids());
  } else if (action == 6) {
    thinks_until_ns_ = clock_.NowNs() + dice_.Below(dice_.OneIn(4) ? 3'000'000'000U : 30'000'000U);
  } else if (action < 9) {
    AppendChain(Pick());
  } else if (action == 9 || action == 10) {
    const Held& held = Pick();
    Save(held.id, RandomName(), held.slots, {});
  } else if (action == 11 && room) {
    return Open(dice_.OneIn(3));
  } else if (action == 12 && dice_.OneIn(3)) {
    return store_.Delete(options_.user, RandomName());
  } else if (action >= 26) {
    return Adapt();
  } else {
    Append(Pick());
  }
  return {};
}

void Guest::Fork(const Held& parent) {
  const SequenceId child{next_sequence_++};
  queue_.Push(command::Fork{.parent = parent.id, .child = child, .account = options_.account});
  held_.push_back({child, Slots(parent.slots)});
}

void Guest::Create() {
  held_.push_back({SequenceId{next_sequence_++}, {}});
  queue_.Push(command::Create{
      .sequence = held_.back().id, .salt = options_.salt, .account = options_.account});
}

void Guest::Drop(size_t index) {
  const SequenceId id = held_[index].id;
  queue_.Push(command::Drop{id});
  for (const auto& asked : asked_) {  // null: Collect is just sorting them out
    if (asked && asked->sequence == id) asked->dropped = true;
  }
  held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(index));
}

void Guest::Truncate(Held& held, uint32_t keep) {
  queue_.Push(command::Truncate{held.id, keep});
  held.slots.resize(keep);
}

Forward Guest::NewForward(Held& held, uint32_t count) {
  if (held.slots.size() + count > options_.longest) {
    Truncate(held, dice_.Below(options_.longest - count + 1) *
                       (held.slots.size() > options_.longest - count ? 1 : 0));
  }
  Forward forward;
  forward.sequence = held.id;
  for (uint32_t i = 0; i < count; ++i) {
    const auto position = static_cast<uint32_t>(held.slots.size());
    // Few different tokens, so that sequences of one user meet the same pages.
    const uint32_t token = 'a' + (dice_.OneIn(8) ? dice_.Below(3) : 0);
    forward.tokens.push_back(token);
    forward.positions.push_back(position);
    held.slots.push_back({token, position});
  }
  forward.samples = {{.rows = {count - 1}}};
  device_.Expect(next_pass_, static_cast<uint32_t>(held.slots.size()) - count);
  return forward;
}

void Guest::Append(Held& held) {
  const uint32_t most = std::max(1U, options_.longest / 2);
  const uint32_t count = dice_.OneIn(3) ? 1 + dice_.Below(most) : 1;
  Forward forward = NewForward(held, count);
  auto asked = std::make_shared<Asked>();
  Slots attended = held.slots;
  if (dice_.OneIn(6)) {
    const Brle mask = {dice_.Below(4), 1 + dice_.Below(8), dice_.Below(5), dice_.Below(30)};
    forward.attention.assign(count, Brle{0, 1U << 20});
    forward.attention.back() = mask;
    const std::vector<bool> bits = Expand(mask, attended.size());
    Slots seen;
    for (size_t i = 0; i < attended.size(); ++i) {
      if (bits[i]) seen.push_back(attended[i]);
    }
    attended = seen;
  }
  asked->expected = Greedy(attended);
  asked->sequence = held.id;
  Push(asked, std::move(forward));
}

// A chain runs until it ends by itself; the guest asks for nothing else meanwhile.
void Guest::AppendChain(Held& held) {
  const bool busy =
      std::ranges::any_of(asked_, [&](const auto& asked) { return asked->sequence == held.id; });
  const auto room = static_cast<uint32_t>(options_.longest -
                                          std::min<size_t>(held.slots.size(), options_.longest));
  if (busy || room < 2) return Append(held);
  Forward forward = NewForward(held, 1);
  auto asked = std::make_shared<Asked>();
  asked->sequence = held.id;
  asked->chained = true;
  asked->slots = held.slots;
  forward.chain = std::make_unique<Chain>();
  forward.chain->max_tokens = 1 + dice_.Below(room);
  if (dice_.OneIn(2)) forward.chain->stops = {'a', 'e'};
  if (dice_.OneIn(3)) {
    asked->rules.emplace(1 + dice_.Below(room));
    forward.rules = std::make_shared<Rules>(*asked->rules);
    std::vector<uint32_t> none;
    forward.rules->Prepare(none);
  }
  if (dice_.OneIn(2)) {
    forward.chain->drafter = std::make_unique<Guesser>(device_.options(), held.slots, next_pass_);
    device_.ExpectDrafts(next_pass_);
  }
  forward.chain->give = [this, state = asked.get()](uint32_t token, std::optional<Chain::End>) {
    if (state->unfed) {
      state->slots.push_back({*state->unfed, static_cast<uint32_t>(state->slots.size())});
    }
    state->unfed = token;
    const uint32_t expected = ExpectedOf(*state);
    if (state->rules && token == expected) std::ignore = state->rules->Accept(token);
    if (token != expected) {
      state->problem = fmt::format("a chain on {} gave {}, a recomputation gives {}",
                                   state->sequence.value, token, expected);
    }
  };
  Push(asked, std::move(forward));
  waits_for_all_ = true;
}

uint32_t Guest::ExpectedOf(const Asked& chain) const {
  if (!chain.rules) return Greedy(chain.slots);
  const std::vector<uint32_t> mask = chain.rules->Mask();
  return *Argmax(DummyLogits(device_.options(), chain.slots), AllowedTokens(mask));
}

void Guest::Push(const std::shared_ptr<Asked>& asked, Forward forward) {
  asked->asked_ns = clock_.NowNs();
  forward.seed = next_pass_++;  // the device knows it by that
  forward.done = [watch = Watch(asked)](Result<std::vector<Slot>> result) mutable {
    if (++watch.asked->calls > 1) watch.asked->problem = "done was called twice";
    watch.asked->result = std::move(result);
  };
  auto pass = std::make_unique<ScheduledPass>();
  pass->first_read = FirstRead(forward);
  pass->forward = std::move(forward);
  asked_.push_back(asked);
  queue_.Push(command::Execute{std::move(pass)});
}

Status Guest::CheckEnded() const {
  PIE_RETURN_IF_ERROR(problem());
  if (!asked_.empty()) return Fail(Code::kInternal, "{} passes never ended", asked_.size());
  if (!saves_.empty()) return Fail(Code::kInternal, "{} saves never ended", saves_.size());
  return {};
}

}  // namespace pie::sim
