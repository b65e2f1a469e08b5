#include "kv/history.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

namespace pie {

History::History(PrefixIndex& index, Block* tail, Rows open)
    : index_(&index), tail_(tail), open_(std::move(open)) {
  index_->Ref(tail_);
}

History& History::operator=(History other) noexcept {
  std::swap(index_, other.index_);
  std::swap(tail_, other.tail_);
  std::swap(open_, other.open_);
  return *this;
}

History::~History() {
  if (tail_ != nullptr) index_->Unref(tail_);
}

void History::Truncate(uint32_t tokens) {
  if (tokens >= this->tokens()) return;
  const uint32_t page_tokens = index_->page_tokens();
  const uint32_t full = tokens / page_tokens;
  if (full == tail_->pages) {
    open_.Truncate(tokens - full * page_tokens);
    return;
  }
  Block* tail = tail_;
  while (tail->pages > full + 1) tail = tail->parent;
  open_ = tail->rows;  // the page that is cut
  open_.Truncate(tokens - full * page_tokens);
  index_->Ref(tail->parent);
  index_->Unref(std::exchange(tail_, tail->parent));
}

std::vector<Block*> History::PathFrom(uint32_t first) const {
  std::vector<Block*> path;
  for (Block* block = tail_; block->pages * index_->page_tokens() > first; block = block->parent) {
    path.push_back(block);
  }
  std::ranges::reverse(path);
  return path;
}

Rows History::From(uint32_t first, uint32_t most) const {
  const uint32_t page_tokens = index_->page_tokens();
  Rows rows;
  uint32_t slot = first;  // of the next row
  const auto add = [&](const Rows& more, uint32_t begin) {
    const uint32_t skip = std::min(slot - begin, more.size());
    const uint32_t count = std::min(more.size() - skip, most - (slot - first));
    rows.Append(more.view().Sub(skip, count), slot);
    slot += count;
  };
  for (const Block* block : PathFrom(first)) {
    if (slot - first == most) return rows;
    add(block->rows, (block->pages - 1) * page_tokens);
  }
  if (const uint32_t begin = tail_->pages * page_tokens; slot < begin + open_.size()) {
    add(open_, begin);
  }
  return rows;
}

uint32_t History::RunFrom(uint32_t first) const {
  const uint32_t page_tokens = index_->page_tokens();
  uint32_t slot = first;
  std::optional<RowAdapter> adapter;  // of the run
  // Returns whether the run goes on behind these rows.
  const auto goes_on = [&](const Rows& rows, uint32_t begin) {
    const RowsView view = rows.view();
    for (; slot < begin + view.size(); ++slot) {
      if (!adapter) adapter = view.adapter(slot - begin);
      if (view.adapter(slot - begin) != *adapter) return false;
      if (view.adapters.size() <= 1) {  // all rows have the same one
        slot = begin + view.size();
        break;
      }
    }
    return true;
  };
  for (const Block* block : PathFrom(first)) {
    if (!goes_on(block->rows, (block->pages - 1) * page_tokens)) return slot - first;
  }
  goes_on(open_, tail_->pages * page_tokens);
  return slot - first;
}

uint32_t History::RowsWithin(uint32_t first, size_t bytes) const {
  const uint32_t page_tokens = index_->page_tokens();
  uint32_t slot = first;
  size_t used = 0;
  // Returns whether all of the rows are within the limit.
  const auto add = [&](const Rows& rows, uint32_t begin) {
    const uint32_t end = begin + rows.size();
    for (; slot < end && !rows.masks.empty(); ++slot) {
      used += rows.masks[slot - begin].size() * sizeof(uint32_t);
      if (used > bytes && slot > first) return false;
    }
    slot = end;
    return true;
  };
  for (const Block* block : PathFrom(first)) {
    if (!add(block->rows, (block->pages - 1) * page_tokens)) return slot - first;
  }
  if (open_.size() > 0) add(open_, tail_->pages * page_tokens);
  return slot - first;
}

std::vector<uint32_t> History::TokensFrom(uint32_t first) const {
  const uint32_t all = this->tokens();
  std::vector<uint32_t> found(all - std::min(first, all));
  auto begin = found.end();  // those from here on are filled in
  const auto add = [&](const std::vector<uint32_t>& more) {
    const auto count = std::min<std::ptrdiff_t>(std::ssize(more), begin - found.begin());
    begin = std::copy_backward(more.end() - count, more.end(), begin);
  };
  add(open_.tokens);
  for (const Block* block = tail_; begin != found.begin(); block = block->parent) {
    add(block->rows.tokens);
  }
  return found;
}

std::vector<uint64_t> History::Versions() const {
  std::vector<uint64_t> versions;
  const auto add = [&versions](const Rows& rows) {
    for (const RowAdapter& adapter : rows.adapters) {
      const bool known = !versions.empty() && versions.back() == adapter.version;
      if (adapter.version != 0 && !known) versions.push_back(adapter.version);
    }
  };
  add(open_);
  for (const Block* block = tail_; block->parent != nullptr; block = block->parent) {
    add(block->rows);
  }
  std::ranges::sort(versions);
  const auto [end, last] = std::ranges::unique(versions);
  versions.erase(end, last);
  return versions;
}

bool History::IsText(uint32_t count) const {
  const auto is_text = [count](const Rows& rows, uint32_t begin) {
    if (!rows.masks.empty()) return false;
    for (uint32_t i = 0; i < rows.size() && begin + i < count; ++i) {
      if (rows.positions[i] != begin + i) return false;
    }
    return true;
  };
  const uint32_t page_tokens = index_->page_tokens();
  if (!is_text(open_, tail_->pages * page_tokens)) return false;
  for (const Block* block = tail_; block->parent != nullptr; block = block->parent) {
    if (!is_text(block->rows, (block->pages - 1) * page_tokens)) return false;
  }
  return true;
}

}  // namespace pie
