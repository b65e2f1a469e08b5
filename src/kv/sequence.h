// Sequence: the page table of one token sequence, and what it was fed.
//
// Its full pages are a chain of blocks that all sequences with the same beginning share; behind
// them come pages of its own, the last of which may be partial. A fork shares everything and costs
// the same at any length. The partial page is copied when a sequence is about to write to it while
// somebody else has it too. A sequence gives its pages back when it dies.
//
// The rows of a batch are appended when it is built, and published when it has run: only then may
// others find them. Owner: the step thread. The index outlives it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "kv/history.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "kv/rows.h"

namespace pie {

struct PageCopy {  // what the device must copy before it writes
  PageId from;
  PageId to;
};

class Sequence {
 public:
  explicit Sequence(PrefixIndex& index, const CacheSalt& salt = {});
  ~Sequence();
  Sequence(Sequence&& other) noexcept;
  Sequence& operator=(Sequence&& other) noexcept;

  uint32_t tokens() const { return tail_->pages * page_tokens() + open_.size(); }
  uint32_t pages_held() const { return first_page_ + static_cast<uint32_t>(table_.size()); }
  // The page table. O(pages) the first time after a fork.
  std::span<const PageId> pages() const;
  // The front of it that covers the first `tokens`.
  std::span<const PageId> PagesOf(uint32_t tokens) const;

  // Free pages that Reserve(more) would take, the copy included. O(1).
  uint32_t PagesNeeded(uint32_t more) const;
  // Makes room for `more` tokens that nobody else sees. All or nothing: false, and nothing changed,
  // if the pool has too few pages. `copy` is set if the device has to copy the partial page; what
  // it copies from stays until Publish.
  bool Reserve(uint32_t more, std::optional<PageCopy>& copy);
  // These rows are being written; room for them was reserved.
  void Append(const RowsView& rows);
  // All that was appended has been written. Full pages can be found by others from now on; one
  // that is in memory already is used in place of ours.
  void Publish();
  // Takes pages from memory for as many of `rows`, which are to come next, as are there; only
  // whole pages, and only at the end of one. Returns how many rows need not be computed.
  uint32_t Adopt(const RowsView& rows);
  // The same behind the last whole page: takes the beginning of a page that goes on in another way.
  // It is another's, and copied by Reserve: that needs a page more than without it.
  uint32_t AdoptBeginning(const RowsView& rows);

  // The page that `rows`, which are to come next, would complete first, as a number that equal
  // pages share. 0: they complete none, or nobody could use it.
  uint64_t NextPage(const RowsView& rows) const;

  Sequence Fork() const;           // reserved room is not shared
  void Truncate(uint32_t tokens);  // keeps the first `tokens`; reserved room is given back
  void Clear() { Truncate(0); }

  History history() const { return History(*index_, tail_, open_); }

  // For checks: what this sequence holds.
  void CollectHeld(std::vector<Block*>& blocks, std::vector<PageId>& pages) const;

 private:
  Sequence(PrefixIndex& index, Block* tail) : index_(&index), tail_(tail) {}
  uint32_t page_tokens() const { return index_->page_tokens(); }
  uint32_t PagesFor(uint64_t tokens) const {
    return static_cast<uint32_t>((tokens + page_tokens() - 1) / page_tokens());
  }
  PageId& page(uint32_t index) { return table_[index - first_page_]; }
  // The next token goes to a page that others have too.
  bool NextPageIsShared() const;
  void ReleaseCopySource();
  // Shortens the table to `keep` pages, no fewer than the tail's.
  void ReleasePagesBehind(uint32_t keep);

  PrefixIndex* index_;
  Block* tail_;  // the last full page; held
  Rows open_;    // what came behind it
  // The block whose page is our partial one, because we were truncated into it; held.
  Block* borrowed_ = nullptr;
  // Pages [first_page_, …). After a fork those of the tail are left out until they are needed.
  mutable std::vector<PageId> table_;
  mutable uint32_t first_page_ = 0;
  // What a copy is being made from.
  Block* copied_block_ = nullptr;
  std::optional<PageId> copied_page_;
};

}  // namespace pie
