// Sequence: the page table of one token sequence, and how many tokens it holds.
//
// Forks share all pages. Full pages are never written again; the partial page at the end is copied
// when a sequence is about to write to it while somebody else holds it too. A sequence gives its
// pages back when it dies. Owner: the step thread. The pool outlives it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/page_pool.h"

namespace pie {

struct PageCopy {  // what the device must copy before it writes
  PageId from;
  PageId to;
};

class Sequence {
 public:
  Sequence(PagePool& pool, uint32_t page_tokens) : pool_(&pool), page_tokens_(page_tokens) {}
  ~Sequence() { Clear(); }
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;

  uint32_t tokens() const { return tokens_; }
  std::span<const PageId> pages() const { return pages_; }
  // The front of the page table that covers the first `tokens`.
  std::span<const PageId> PagesOf(uint32_t tokens) const;

  // Free pages that Reserve(more) would take, the copy included. O(1).
  uint32_t PagesNeeded(uint32_t more) const;
  // Makes room for `more` tokens that nobody else sees. All or nothing: false, and nothing changed,
  // if the pool has too few pages. `copy` is set if the device has to copy the partial page.
  bool Reserve(uint32_t more, std::optional<PageCopy>& copy);
  // `more` tokens were written; room for them was reserved.
  void Advance(uint32_t more);

  Sequence Fork() const;           // O(pages); reserved room is not shared
  void Truncate(uint32_t tokens);  // keeps the first `tokens`; reserved room is given back
  void Clear() { Truncate(0); }

 private:
  uint32_t PagesFor(uint64_t tokens) const {
    return static_cast<uint32_t>((tokens + page_tokens_ - 1) / page_tokens_);
  }
  // The next token goes to a page that others hold too.
  bool NextPageIsShared() const;

  PagePool* pool_;
  uint32_t page_tokens_;
  uint32_t tokens_ = 0;
  std::vector<PageId> pages_;
};

}  // namespace pie
