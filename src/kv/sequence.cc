#include "kv/sequence.h"

#include <algorithm>
#include <utility>

namespace pie {

Sequence::Sequence(Sequence&& other) noexcept
    : pool_(other.pool_),
      page_tokens_(other.page_tokens_),
      tokens_(std::exchange(other.tokens_, 0)),
      pages_(std::exchange(other.pages_, {})) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this != &other) {
    Clear();
    pool_ = other.pool_;
    page_tokens_ = other.page_tokens_;
    tokens_ = std::exchange(other.tokens_, 0);
    pages_ = std::exchange(other.pages_, {});
  }
  return *this;
}

std::span<const PageId> Sequence::PagesOf(uint32_t tokens) const {
  return std::span(pages_).first(std::min<size_t>(PagesFor(tokens), pages_.size()));
}

bool Sequence::NextPageIsShared() const {
  return tokens_ % page_tokens_ != 0 && pool_->shared(pages_[tokens_ / page_tokens_]);
}

uint32_t Sequence::PagesNeeded(uint32_t more) const {
  if (more == 0) return 0;
  const auto held = static_cast<uint32_t>(pages_.size());
  const uint32_t wanted = std::max(PagesFor(uint64_t{tokens_} + more), held);
  return wanted - held + (NextPageIsShared() ? 1 : 0);
}

bool Sequence::Reserve(uint32_t more, std::optional<PageCopy>& copy) {
  copy.reset();
  uint32_t needed = PagesNeeded(more);
  if (needed > pool_->pages_free()) return false;
  if (more > 0 && NextPageIsShared()) {
    PageId& partial = pages_[tokens_ / page_tokens_];
    copy = PageCopy{.from = partial, .to = *pool_->Take()};
    pool_->Release(partial);
    partial = copy->to;
    --needed;
  }
  for (; needed > 0; --needed) pages_.push_back(*pool_->Take());
  return true;
}

void Sequence::Advance(uint32_t more) {
  PIE_CHECK(uint64_t{tokens_} + more <= uint64_t{page_tokens_} * pages_.size());
  tokens_ += more;
}

Sequence Sequence::Fork() const {
  Sequence child(*pool_, page_tokens_);
  const auto shared = PagesOf(tokens_);
  child.pages_.assign(shared.begin(), shared.end());
  child.tokens_ = tokens_;
  for (PageId page : shared) pool_->AddRef(page);
  return child;
}

void Sequence::Truncate(uint32_t tokens) {
  tokens_ = std::min(tokens_, tokens);
  for (size_t keep = PagesFor(tokens_); pages_.size() > keep; pages_.pop_back()) {
    pool_->Release(pages_.back());
  }
}

}  // namespace pie
