#include "host/matcher_rules.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace pie::host {
namespace {

constexpr uint32_t kWordBits = 32;
// Forced tokens that are looked for ahead: as many as a chain feeds with one pass.
constexpr uint32_t kForcedAhead = 64;
// How long a device waits for masks that another thread is making.
constexpr std::chrono::milliseconds kMaskPatience(20);

std::vector<uint32_t> BitsOf(const Brle& mask, uint32_t vocab_size) {
  std::vector<uint32_t> bits((vocab_size + kWordBits - 1) / kWordBits, 0);
  ForEachTrueRun(mask, vocab_size, [&](uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) bits[i / kWordBits] |= 1U << (i % kWordBits);
  });
  return bits;
}

bool Test(const std::vector<uint32_t>& bits, uint32_t token) {
  return bits.empty() || ((bits[token / kWordBits] >> (token % kWordBits)) & 1U) != 0;
}

// The memory of the texts that the matchers follow.
size_t TextBytes(const std::vector<MatcherRules::Named>& matchers) {
  size_t bytes = 0;
  for (const MatcherRules::Named& named : matchers) bytes += named.matcher.bytes();
  return bytes;
}

// Calls a function once, at the latest when it is destroyed: a pass that waits for it goes on even
// if the job that holds it has failed or was never run.
class Once {
 public:
  explicit Once(std::move_only_function<void()> call) : call_(std::move(call)) {}
  Once(Once&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  Once& operator=(Once&&) = delete;
  ~Once() {
    if (call_) call_();
  }

 private:
  std::move_only_function<void()> call_;
};

}  // namespace

bool MatcherRules::ThreadPays() {
  return std::thread::hardware_concurrency() > 2;
}

MatcherRules::MatcherRules(std::vector<Named> matchers, const Brle& logit_mask, uint32_t vocab_size,
                           Owner owner)
    : matchers_(std::move(matchers)), owner_(std::move(owner)), first_bytes_(TextBytes(matchers_)) {
  if (!logit_mask.empty()) static_bits_ = BitsOf(logit_mask, vocab_size);
}

Status MatcherRules::AcceptAll(uint32_t token) {
  if (broken_) return std::unexpected(*broken_);
  for (size_t i = 0; i < matchers_.size(); ++i) {
    const Status accepted = matchers_[i].matcher.Accept({&token, 1});
    if (accepted) continue;
    for (size_t j = 0; j < i; ++j) {
      if (const Status back = matchers_[j].matcher.Rollback(1); !back) broken_ = back.error();
    }
    return accepted;
  }
  return {};
}

// A matcher whose grammar has exceeded its limits cannot go back.
void MatcherRules::Rollback(size_t tokens) {
  if (tokens == 0) return;
  for (Named& named : matchers_) {
    if (const Status back = named.matcher.Rollback(tokens); !back) broken_ = back.error();
  }
}

// The text is complete when all matchers have ended. If only some have ended, the masks allow only
// tokens that end a turn.
bool MatcherRules::is_complete() const {
  return std::ranges::all_of(matchers_,
                             [](const Named& named) { return named.matcher.is_terminated(); });
}

Result<bool> MatcherRules::Take(uint32_t token) {
  PIE_RETURN_IF_ERROR(AcceptAll(token));
  const size_t bytes = TextBytes(matchers_);
  if (owner_.charge.Resize(bytes - std::min(bytes, first_bytes_))) return is_complete();
  Rollback(1);
  return Fail(Code::kExhausted,
              "memory limit: the matchers of the pass follow a text that takes {} KiB of the "
              "engine's memory",
              bytes >> 10);
}

Result<bool> MatcherRules::Accept(uint32_t token) {
  const std::lock_guard lock(mutex_);
  if (!ahead_.empty() && ahead_.front().token == token) {
    Result<bool> complete = std::move(ahead_.front().complete);
    ahead_.pop_front();
    if (chosen_ahead_ > 0) --chosen_ahead_;
    if (complete) ++taken_;
    return complete;
  }
  TakeBackAhead();
  const LentTimeMeter meter(owner_.lent.get());
  const bool complete = PIE_TRY(Take(token));
  ++taken_;
  return complete;
}

size_t MatcherRules::CountOpen(const Tokens& tokens) {
  size_t taken = 0;
  size_t open = 0;
  for (const uint32_t token : tokens) {
    if (!Test(static_bits_, token) || !AcceptAll(token)) break;
    ++taken;
    if (is_complete()) break;
    open = taken;
  }
  Rollback(taken);
  return open;
}

std::vector<uint32_t> MatcherRules::FindForced(uint32_t most) {
  if (broken_) return {};
  Tokens forced = matchers_.front().matcher.ForcedTokens();
  forced.resize(std::min<size_t>(forced.size(), most));
  if (!forced.empty()) forced.resize(CountOpen(forced));
  return forced;
}

std::vector<uint32_t> MatcherRules::Forced(uint32_t most) {
  const std::lock_guard lock(mutex_);
  if (has_forced_ahead_ && chosen_ahead_ == 0) {
    Tokens forced;
    for (size_t i = 0; i < std::min<size_t>(most, ahead_.size()); ++i) {
      forced.push_back(ahead_[i].token);
    }
    return forced;
  }
  TakeBackAhead();
  const LentTimeMeter meter(owner_.lent.get());
  return FindForced(most);
}

void MatcherRules::Prepare(Tokens& draft) {
  const std::lock_guard lock(mutex_);
  const bool has_masks = has_masks_ahead_ && ahead_.empty();
  TakeBackAhead();
  const bool slow = is_slow();
  if (slow) draft.clear();  // checking it would take long
  if (!draft.empty()) {
    const LentTimeMeter meter(owner_.lent.get());
    draft.resize(CountOpen(draft));
  }
  draft_ = draft;
  if (!has_masks || !draft.empty()) masks_.clear();
  ++prepared_;
  if (owner_.masks == nullptr || slow || !masks_.empty()) return;
  // If the queue is full, the device makes the masks.
  owner_.masks->Push(owner_.user, [self = shared_from_this(), number = prepared_] {
    const std::lock_guard work_lock(self->mutex_);
    if (self->prepared_ == number && self->masks_.empty()) self->MakeMasks();
  });
}

Status MatcherRules::WorkAhead(Tokens chosen, std::move_only_function<void()> ready) {
  // `ready` is called when the job is destroyed, which is after the lock was released.
  auto job = [self = shared_from_this(), chosen = std::move(chosen),
              ready = Once(std::move(ready))] {
    const std::lock_guard lock(self->mutex_);
    self->LookAhead(chosen);
  };
  if (owner_.ahead->Push(owner_.user, std::move(job))) return {};
  return Fail(Code::kExhausted,
              "the grammars of your passes are slow, and too many passes wait for them: run fewer "
              "at a time, or use simpler grammars");
}

void MatcherRules::LookAhead(const Tokens& chosen) {
  if (chosen.empty()) {
    if (masks_.empty()) MakeMasks();
    return;
  }
  TakeBackAhead();
  masks_.clear();
  draft_.clear();
  for (const uint32_t token : chosen) {
    Result<bool> complete = Take(token);
    const bool goes_on = complete && !*complete;
    ahead_.push_back({token, std::move(complete)});
    ++chosen_ahead_;
    if (!goes_on) return;
  }
  for (const uint32_t token : FindForced(kForcedAhead)) {
    const Result<bool> complete = Take(token);
    if (!complete) break;
    if (*complete) {
      Rollback(1);
      break;
    }
    ahead_.push_back({token, false});
  }
  has_forced_ahead_ = true;
  MakeMasks();
  has_masks_ahead_ = true;
}

void MatcherRules::TakeBackAhead() {
  has_forced_ahead_ = false;
  has_masks_ahead_ = false;
  if (ahead_.empty()) return;
  Rollback(static_cast<size_t>(std::ranges::count_if(
      ahead_, [](const Ahead& ahead) { return ahead.complete.has_value(); })));
  ahead_.clear();
  chosen_ahead_ = 0;
  masks_.clear();
}

void MatcherRules::MakeMasks() {
  size_t taken = 0;
  while (true) {
    masks_.push_back(MakeMask(taken));
    if (taken == draft_.size() || !masks_.back() || !AcceptAll(draft_[taken])) break;
    ++taken;
  }
  Rollback(taken);
}

Result<std::vector<uint32_t>> MatcherRules::MakeMask(size_t behind) {
  if (broken_) return std::unexpected(*broken_);
  Tokens bits = PIE_TRY(matchers_.front().matcher.MaskBits());
  const auto keep = [&](const Tokens& others) {
    for (size_t i = 0; i < bits.size(); ++i) bits[i] &= i < others.size() ? others[i] : 0;
  };
  for (size_t i = 1; i < matchers_.size(); ++i) keep(PIE_TRY(matchers_[i].matcher.MaskBits()));
  if (!static_bits_.empty()) keep(static_bits_);
  if (std::ranges::all_of(bits, [](uint32_t word) { return word == 0; })) {
    return std::unexpected(NothingAllowed(behind));
  }
  return bits;
}

Error MatcherRules::NothingAllowed(size_t behind) const {
  std::string names;
  for (const Named& named : matchers_) names += (names.empty() ? "" : ", ") + named.name;
  if (!static_bits_.empty()) names += ", the logit mask";
  return {Code::kInvalid,
          fmt::format("no token is allowed at position {} of the text by all of: {}",
                      taken_ + ahead_.size() + behind, names)};
}

std::unexpected<Error> MatcherRules::Late() {
  late_.store(true);
  return Fail(Code::kExhausted, "the grammar of the pass took too long to make a mask");
}

// Once a batch had to do without a mask, it does so at every call: a device may ask several times.
Result<std::span<const uint32_t>> MatcherRules::Bits(uint32_t index) {
  if (late_.load()) return Late();
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() && !owner_.lent) lock.lock();
  if (!lock.owns_lock()) {
    if (is_slow()) return Late();
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    // Measured by the system's clock, because the thread sanitizer does not see waits by the other
    // one. If the clock is set back meanwhile, this waits until the masks are made.
    const bool in_time = lock.try_lock_until(std::chrono::system_clock::now() + kMaskPatience);
    owner_.lent->Spend(SteadyClock::Get().NowNs() - begin_ns);
    if (!in_time) return Late();
  }
  if (masks_.empty()) {
    if (is_slow()) return Late();
    const LentTimeMeter meter(owner_.lent.get());
    MakeMasks();
  }
  const Result<Tokens>& mask = masks_[std::min<size_t>(index, masks_.size() - 1)];
  if (!mask) return std::unexpected(mask.error());
  return std::span<const uint32_t>(*mask);
}

}  // namespace pie::host
