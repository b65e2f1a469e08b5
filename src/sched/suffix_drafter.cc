#include "sched/suffix_drafter.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace pie {
namespace {

// Limits on the number of places that are compared, and on the length of the comparison.
constexpr uint32_t kPlaces = 8;
constexpr size_t kLongest = 32;
// The number of tokens that are proposed after many equal ones.
constexpr uint32_t kMany = 4;
// The shares of guesses that are expected to be right after few and after many equal tokens.
constexpr double kRightAfterFew = 0.4, kRightAfterMany = 0.85;

}  // namespace

uint32_t& SuffixIndex::HeadOf(const uint32_t* gram) {
  return heads_[Mix(gram[0], gram[1], gram[2]) & (heads_.size() - 1)];
}

void SuffixIndex::Grow() {
  heads_.assign(std::max<size_t>(heads_.size() * 4, 1'024), 0);
  for (uint32_t end = kGram; end < tokens_.size(); ++end) {
    uint32_t& head = HeadOf(tokens_.data() + end - kGram);
    before_[end] = std::exchange(head, end);
  }
}

void SuffixIndex::Add(uint32_t token) {
  tokens_.push_back(token);
  before_.resize(tokens_.size() + 1);
  if (tokens_.size() < kGram) return;
  if (tokens_.size() > heads_.size()) Grow();
  const auto end = static_cast<uint32_t>(tokens_.size());
  before_[end] = std::exchange(HeadOf(tokens_.data() + end - kGram), end);
}

std::vector<uint32_t> SuffixIndex::After(std::span<const uint32_t> text, uint32_t most) const {
  const size_t end = tokens_.size();
  if (text.size() < kGram || end < kGram) return {};
  const bool own = text.data() == tokens_.data();
  size_t best = 0, best_length = 0;
  const uint32_t* const gram = text.data() + text.size() - kGram;
  uint32_t place = heads_[Mix(gram[0], gram[1], gram[2]) & (heads_.size() - 1)];
  for (uint32_t looked = 0; place != 0 && looked < kPlaces; ++looked, place = before_[place]) {
    if (own && place == end) continue;  // the end of `text` itself is not a match
    size_t length = 0;
    while (length < std::min<size_t>({place, text.size(), kLongest}) &&
           tokens_[place - 1 - length] == text[text.size() - 1 - length]) {
      ++length;
    }
    if (length <= best_length) continue;
    best = place;
    best_length = length;
  }
  if (best_length < kGram) return {};
  // The longer the match, the more tokens are proposed.
  most = std::min(most, static_cast<uint32_t>(best_length - kGram + 1));
  std::vector<uint32_t> next;
  while (next.size() < most && (best + next.size() < end || own)) {
    const size_t at = best + next.size();
    next.push_back(at < end ? tokens_[at] : next[at - end]);
  }
  return next;
}

void RecentTokens::Add(std::span<const uint32_t> tokens) {
  const std::lock_guard lock(mutex_);
  for (const uint32_t token : tokens) {
    if (newest_.size() >= kTokens) older_ = std::exchange(newest_, {});
    newest_.Add(token);
  }
}

std::vector<uint32_t> RecentTokens::After(std::span<const uint32_t> text, uint32_t most) const {
  const std::lock_guard lock(mutex_);
  std::vector<uint32_t> next = newest_.After(text, most);
  return next.empty() ? older_.After(text, most) : next;
}

SuffixDrafter::SuffixDrafter(std::span<const uint32_t> text, std::shared_ptr<RecentTokens> recent,
                             const StepTime& time)
    : recent_(std::move(recent)),
      after_few_(time, kRightAfterFew),
      after_many_(time, kRightAfterMany) {
  for (const uint32_t token : text) text_.Add(token);
}

SuffixDrafter::~SuffixDrafter() {
  if (recent_) recent_->Add(given_);
}

void SuffixDrafter::Add(uint32_t token) {
  text_.Add(token);
  if (recent_ && given_.size() < RecentTokens::kTokens) given_.push_back(token);
}

void SuffixDrafter::Judge(uint32_t drafted, uint32_t chosen) {
  asked_->Judge(drafted, chosen);
}

std::optional<std::vector<uint32_t>> SuffixDrafter::Draft(uint32_t most) {
  const uint32_t asked = std::max(most, kMany);
  std::vector<uint32_t> draft = text_.After(text_.tokens(), asked);
  if (draft.empty() && recent_) draft = recent_->After(text_.tokens(), asked);
  if (draft.empty()) return draft;
  asked_ = draft.size() < kMany ? &after_few_ : &after_many_;
  uint32_t length = asked_->Length(most);
  if (length == 0 && asked_->Probe()) length = std::min(most, 1U);
  draft.resize(std::min<size_t>(draft.size(), length));
  return draft;
}

}  // namespace pie
