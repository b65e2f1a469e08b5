#include "sched/view.h"

#include <algorithm>
#include <utility>

namespace pie {
namespace {

constexpr int64_t kSliceNs = 200'000;
constexpr size_t kLanesBetweenLooksAtTheClock = 16;
constexpr int64_t kBarNs = 4'000'000;
constexpr size_t kMostBars = 512;

}  // namespace

void Viewer::AddBatch(int64_t begin_ns, int64_t end_ns, size_t members, size_t rows) {
  BatchBar* bar = nullptr;
  if (!bars_.empty()) {
    BatchBar& last = bars_[(next_bar_ + bars_.size() - 1) % bars_.size()];
    if (begin_ns - last.begin_ns < kBarNs) bar = &last;
  }
  if (bar == nullptr && bars_.size() < kMostBars) {
    bar = &bars_.emplace_back(BatchBar{.begin_ns = begin_ns});
  } else if (bar == nullptr) {
    bar = &bars_[next_bar_];
    *bar = {.begin_ns = begin_ns};
    next_bar_ = (next_bar_ + 1) % kMostBars;
  }
  bar->busy_ns += end_ns - begin_ns;
  bar->batches += 1;
  bar->members += static_cast<uint32_t>(members);
  bar->rows += static_cast<uint32_t>(rows);
}

void Viewer::Begin() {
  if (draft_) return;
  draft_ = std::make_shared<View>();
  draft_->pages.resize(pool_.pages_total());
  index_.clear();
  counted_.clear();
  to_do_.clear();
  lanes_.ForEach([this](const Lane& lane) { to_do_.push_back(lane.id); });
}

bool Viewer::Work() {
  if (!draft_) return false;
  const int64_t end_ns = clock_.NowNs() + kSliceNs;
  while (!to_do_.empty()) {
    for (size_t i = 0; i < kLanesBetweenLooksAtTheClock && !to_do_.empty(); ++i) {
      const Lane* lane = lanes_.Get(to_do_.back());
      to_do_.pop_back();
      if (lane != nullptr) Look(*lane);  // otherwise it was dropped meanwhile
    }
    if (!to_do_.empty() && clock_.NowNs() >= end_ns) return true;
  }
  Finish();
  return false;
}

uint32_t Viewer::IndexOf(AccountId account) {
  const auto [place, fresh] =
      index_.try_emplace(account.value, static_cast<uint32_t>(draft_->accounts.size()));
  if (fresh) {
    draft_->accounts.push_back({.owner = market_.owner(account),
                                .balance = market_.balance(account),
                                .dividend = market_.dividend(account)});
  }
  return place->second;
}

bool Viewer::Mark(PageId page, uint32_t account) {
  View::Page& place = draft_->pages[page.value];
  if (place.state == View::State::kShared) return false;
  if (place.state == View::State::kHeld) {
    place.state = View::State::kShared;
  } else {
    place = {.state = View::State::kHeld, .account = account};
  }
  return true;
}

void Viewer::Look(const Lane& lane) {
  const uint32_t index = IndexOf(lane.account);
  View::Account& account = draft_->accounts[index];
  ++account.contexts;
  if (lane.suspended() && lane.parked) {
    ++account.suspended;
    const uint32_t pages = (lane.parked->tokens + page_tokens_ - 1) / page_tokens_;
    const StoredKv* stored = lane.parked->stored.get();
    if (stored == nullptr) {
      account.pages_dropped += pages;
    } else if (counted_.insert(stored).second) {
      account.pages_stored += pages;
    }
  }
  blocks_.clear();
  own_pages_.clear();
  lane.kv.CollectHeld(blocks_, own_pages_);
  for (PageId page : own_pages_) Mark(page, index);
  // A sequence that holds a block also holds the blocks above it. So all pages above a shared page
  // are shared.
  for (const Block* block : blocks_) {
    for (; block != nullptr && block->parent != nullptr; block = block->parent) {
      if (block->page && !Mark(*block->page, index)) break;
    }
  }
}

void Viewer::Finish() {
  // A page that no context holds and that is not free is cached.
  for (uint32_t i = 0; i < draft_->pages.size(); ++i) {
    View::Page& page = draft_->pages[i];
    if (page.state == View::State::kFree && pool_.refs(PageId{i}) > 0) {
      page.state = View::State::kCached;
    }
  }
  draft_->batches.reserve(bars_.size());
  for (size_t i = 0; i < bars_.size(); ++i) {
    draft_->batches.push_back(bars_[(next_bar_ + i) % bars_.size()]);
  }
  draft_->made_ns = clock_.NowNs();
  std::shared_ptr<const View> old = std::move(draft_);
  draft_ = nullptr;
  // The view before is destroyed when the lock is free again, unless a reader has it.
  std::lock_guard lock(mutex_);
  latest_.swap(old);
}

std::shared_ptr<const View> Viewer::latest() const {
  std::lock_guard lock(mutex_);
  return latest_;
}

}  // namespace pie
