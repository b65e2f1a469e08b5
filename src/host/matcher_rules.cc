#include "host/matcher_rules.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace pie::host {
namespace {

constexpr uint32_t kWordBits = 32;

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

}  // namespace

bool MatcherRules::ThreadPays() {
  return std::thread::hardware_concurrency() > 2;
}

MatcherRules::MatcherRules(std::vector<Named> matchers, const Brle& logit_mask, uint32_t vocab_size,
                           WorkQueue* work, std::string user)
    : matchers_(std::move(matchers)), work_(work), user_(std::move(user)) {
  if (!logit_mask.empty()) static_bits_ = BitsOf(logit_mask, vocab_size);
}

Status MatcherRules::AcceptAll(uint32_t token) {
  for (size_t i = 0; i < matchers_.size(); ++i) {
    const Status accepted = matchers_[i].matcher.Accept({&token, 1});
    if (accepted) continue;
    for (size_t j = 0; j < i; ++j) PIE_CHECK(matchers_[j].matcher.Rollback(1).has_value());
    return accepted;
  }
  return {};
}

void MatcherRules::Rollback(size_t tokens) {
  if (tokens == 0) return;
  for (Named& named : matchers_) PIE_CHECK(named.matcher.Rollback(tokens).has_value());
}

// The text is complete when all matchers have ended. If only some have, the masks allow no token
// but those that end a turn.
bool MatcherRules::is_complete() const {
  return std::ranges::all_of(matchers_,
                             [](const Named& named) { return named.matcher.is_terminated(); });
}

Result<bool> MatcherRules::Accept(uint32_t token) {
  const std::lock_guard lock(mutex_);
  PIE_RETURN_IF_ERROR(AcceptAll(token));
  ++taken_;
  return is_complete();
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

std::vector<uint32_t> MatcherRules::Forced(uint32_t most) {
  const std::lock_guard lock(mutex_);
  Tokens forced = matchers_.front().matcher.ForcedTokens();
  forced.resize(std::min<size_t>(forced.size(), most));
  if (!forced.empty()) forced.resize(CountOpen(forced));
  return forced;
}

void MatcherRules::Prepare(Tokens& draft) {
  const std::lock_guard lock(mutex_);
  draft.resize(CountOpen(draft));
  draft_ = draft;
  masks_.clear();
  ++prepared_;
  if (work_ == nullptr) return;
  // If the queue is full, the device makes the masks.
  work_->Push(user_, [self = shared_from_this(), number = prepared_] {
    const std::lock_guard work_lock(self->mutex_);
    if (self->prepared_ == number && self->masks_.empty()) self->MakeMasks();
  });
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
                      taken_ + behind, names)};
}

Result<std::span<const uint32_t>> MatcherRules::Bits(uint32_t index) {
  const std::lock_guard lock(mutex_);
  if (masks_.empty()) MakeMasks();
  const Result<Tokens>& mask = masks_[std::min<size_t>(index, masks_.size() - 1)];
  if (!mask) return std::unexpected(mask.error());
  return std::span<const uint32_t>(*mask);
}

}  // namespace pie::host
