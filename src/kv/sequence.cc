#include "kv/sequence.h"

#include <algorithm>
#include <utility>

namespace pie {

Sequence::Sequence(PrefixIndex& index, const CacheSalt& salt)
    : Sequence(index, index.HoldRoot(salt)) {}

Sequence::~Sequence() {
  if (tail_ == nullptr) return;  // moved from
  ReleaseCopySource();
  ReleasePagesBehind(tail_->pages);
  index_->Drop(tail_);
}

Sequence::Sequence(Sequence&& other) noexcept
    : index_(other.index_),
      tail_(std::exchange(other.tail_, nullptr)),
      open_(std::exchange(other.open_, {})),
      borrowed_(std::exchange(other.borrowed_, nullptr)),
      table_(std::exchange(other.table_, {})),
      first_page_(std::exchange(other.first_page_, 0)),
      copied_block_(std::exchange(other.copied_block_, nullptr)),
      copied_page_(std::exchange(other.copied_page_, std::nullopt)) {}

Sequence& Sequence::operator=(Sequence&& other) noexcept {
  if (this == &other) return *this;
  std::swap(index_, other.index_);
  std::swap(tail_, other.tail_);
  std::swap(open_, other.open_);
  std::swap(borrowed_, other.borrowed_);
  std::swap(table_, other.table_);
  std::swap(first_page_, other.first_page_);
  std::swap(copied_block_, other.copied_block_);
  std::swap(copied_page_, other.copied_page_);
  Sequence old(std::move(other));  // gives its pages back here, not when `other` is destroyed
  return *this;
}

std::span<const PageId> Sequence::pages() const {
  if (first_page_ > 0) {
    table_.insert(table_.begin(), first_page_, PageId{});
    const Block* block = tail_;
    while (block->pages > first_page_) block = block->parent;
    for (; block->pages > 0; block = block->parent) table_[block->pages - 1] = *block->page;
    first_page_ = 0;
  }
  return table_;
}

std::span<const PageId> Sequence::PagesOf(uint32_t tokens) const {
  return pages().first(std::min<size_t>(PagesFor(tokens), table_.size()));
}

bool Sequence::NextPageIsShared() const {
  if (borrowed_ != nullptr) return true;
  const uint32_t next = tokens() / page_tokens();
  return tokens() % page_tokens() != 0 && index_->pool().shared(table_[next - first_page_]);
}

uint32_t Sequence::PagesNeeded(uint32_t more) const {
  if (more == 0) return 0;
  const uint32_t wanted = std::max(PagesFor(uint64_t{tokens()} + more), pages_held());
  return wanted - pages_held() + (NextPageIsShared() ? 1 : 0);
}

bool Sequence::Reserve(uint32_t more, std::optional<PageCopy>& copy) {
  copy.reset();
  PagePool& pool = index_->pool();
  uint32_t needed = PagesNeeded(more);
  if (needed > pool.pages_free()) return false;
  if (more > 0 && NextPageIsShared()) {
    PageId& partial = page(tokens() / page_tokens());
    copy = PageCopy{.from = partial, .to = *pool.Take()};
    ReleaseCopySource();
    if (borrowed_ != nullptr) {
      copied_block_ = std::exchange(borrowed_, nullptr);
    } else {
      copied_page_ = partial;
    }
    partial = copy->to;
    --needed;
  }
  for (; needed > 0; --needed) table_.push_back(*pool.Take());
  return true;
}

void Sequence::ReleaseCopySource() {
  if (copied_block_ != nullptr) index_->Drop(std::exchange(copied_block_, nullptr));
  if (copied_page_) index_->pool().Release(*std::exchange(copied_page_, std::nullopt));
}

void Sequence::Append(const RowsView& rows) {
  PIE_CHECK(borrowed_ == nullptr || rows.size() == 0);
  PIE_CHECK(uint64_t{tokens()} + rows.size() <= uint64_t{page_tokens()} * pages_held());
  open_.Append(rows, tokens());
}

void Sequence::SetToken(uint32_t index, uint32_t token) {
  const uint32_t published = tail_->pages * page_tokens();
  PIE_CHECK(index >= published && index < tokens());
  open_.tokens[index - published] = token;
}

void Sequence::Publish(uint32_t unwritten) {
  ReleaseCopySource();
  const uint32_t written = open_.size() - std::min(unwritten, open_.size());
  const uint32_t full = borrowed_ == nullptr ? written / page_tokens() : 0;
  for (uint32_t i = 0; i < full; ++i) {
    Rows rows;
    rows.Append(open_.view().Sub(size_t{i} * page_tokens(), page_tokens()),
                tail_->pages * page_tokens());
    PageId& own = page(tail_->pages);
    tail_ = index_->Extend(tail_, std::move(rows), own);
    own = *tail_->page;
  }
  if (full > 0) open_.RemoveFront(full * page_tokens());
}

void Sequence::TakeAdopted(Block* block) {
  tail_ = block;
  if (pages_held() < block->pages) {
    table_.push_back(*block->page);
  } else {  // room was reserved there
    index_->pool().Release(std::exchange(page(block->pages - 1), *block->page));
  }
}

uint32_t Sequence::Adopt(const RowsView& rows, uint32_t most_pages) {
  if (open_.size() > 0) return 0;
  uint32_t adopted = 0;
  for (; most_pages > 0 && adopted + page_tokens() <= rows.size(); --most_pages) {
    Block* const next = index_->Descend(tail_, rows.Sub(adopted, page_tokens()));
    if (next == nullptr) break;
    TakeAdopted(next);
    adopted += page_tokens();
  }
  return adopted;
}

uint32_t Sequence::Adopt(const History& history) {
  if (open_.size() > 0) return 0;
  const uint32_t before = tokens();
  for (Block* const block : history.PathFrom(before)) {
    if (!index_->DescendTo(tail_, block)) break;
    TakeAdopted(block);
  }
  return tokens() - before;
}

uint32_t Sequence::AdoptBeginning(const RowsView& rows) {
  if (open_.size() > 0 || pages_held() > tail_->pages) return 0;
  const auto [block, count] = index_->Borrow(*tail_, rows);
  if (block == nullptr) return 0;
  borrowed_ = block;
  table_.push_back(*block->page);
  open_.Append(rows.Sub(0, count), tokens());
  return count;
}

uint64_t Sequence::NextPage(const RowsView& rows) const {
  if (open_.size() + rows.size() < page_tokens() || open_.size() >= page_tokens()) return 0;
  if (!open_.masks.empty()) return 0;  // they may be long to hash, and this is asked often
  Rows page = open_;
  page.Append(rows.Sub(0, page_tokens() - open_.size()), tokens());
  return index_->NumberOf(*tail_, page.view());
}

Sequence Sequence::Fork() const {
  index_->Hold(tail_);
  Sequence child(*index_, tail_);
  child.open_ = open_;
  child.first_page_ = tail_->pages;
  if (open_.size() == 0) return child;
  const uint32_t end = PagesFor(tokens());
  for (uint32_t i = tail_->pages; i < end; ++i) {
    const PageId shared = table_[i - first_page_];
    child.table_.push_back(shared);
    if (borrowed_ == nullptr) index_->pool().AddRef(shared);
  }
  if (borrowed_ != nullptr) index_->Hold(child.borrowed_ = borrowed_);
  return child;
}

void Sequence::ReleasePagesBehind(uint32_t keep) {
  for (; pages_held() > keep; table_.pop_back()) {
    if (borrowed_ != nullptr) {
      index_->Drop(std::exchange(borrowed_, nullptr));
    } else {
      index_->pool().Release(table_.back());
    }
  }
}

void Sequence::Truncate(uint32_t count) {
  ReleaseCopySource();
  const uint32_t keep = std::min(tokens(), count);
  const uint32_t full = keep / page_tokens();
  ReleasePagesBehind(std::max(PagesFor(keep), tail_->pages));
  if (full >= tail_->pages) {
    open_.Truncate(keep - tail_->pages * page_tokens());
    return;
  }
  // Of the table, only the pages after the tail were ours to release.
  first_page_ = std::min(first_page_, full);
  table_.resize(first_page_ == full ? 0 : std::min<size_t>(table_.size(), full - first_page_));
  tail_ = index_->Ascend(tail_, full + 1);
  // The rest of this page becomes our partial page. It still belongs to the block.
  Block* const cut = tail_;
  const uint32_t rest = keep - full * page_tokens();
  open_ = cut->rows;
  open_.Truncate(rest);
  if (rest > 0) index_->Hold(cut);
  tail_ = index_->Ascend(cut, full);
  if (rest > 0) {
    borrowed_ = cut;
    table_.push_back(*cut->page);
  }
}

void Sequence::CollectHeld(std::vector<Block*>& blocks, std::vector<PageId>& pages) const {
  blocks.push_back(tail_);
  for (Block* block : {borrowed_, copied_block_}) {
    if (block != nullptr) blocks.push_back(block);
  }
  if (copied_page_) pages.push_back(*copied_page_);
  for (uint32_t i = tail_->pages + (borrowed_ != nullptr ? 1 : 0); i < pages_held(); ++i) {
    pages.push_back(table_[i - first_page_]);
  }
}

}  // namespace pie
