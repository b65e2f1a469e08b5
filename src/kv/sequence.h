// Sequence: the page table of one token sequence, and the rows it was fed.
//
// Its full pages are a chain of blocks that all sequences with the same beginning share. Its own
// pages follow them; the last one may be partial. A fork shares everything and costs the same at
// any length. A shared partial page is copied before a sequence writes to it. The destructor gives
// the pages back.
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
#include "kv/page_copy.h"
#include "kv/page_pool.h"
#include "kv/prefix_index.h"
#include "kv/rows.h"

namespace pie {

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
  // The part of the page table that covers the first `tokens`.
  std::span<const PageId> PagesOf(uint32_t tokens) const;

  // Free pages that Reserve(more) would take, the copy included. O(1).
  uint32_t PagesNeeded(uint32_t more) const;
  // Makes room for `more` tokens in pages of its own. If the pool has too few pages, returns false
  // and changes nothing. `copy` is set if the device has to copy the partial page; the source of
  // that copy is kept until Publish.
  bool Reserve(uint32_t more, std::optional<PageCopy>& copy);
  // Appends rows that the device writes with the next batch. Room for them was reserved.
  void Append(const RowsView& rows);
  // Call when the device has written all appended rows except the last `unwritten` ones. Other
  // sequences can find the full pages from then on. If an equal full page is in memory already, it
  // replaces ours.
  void Publish(uint32_t unwritten = 0);
  // Sets the token of a row that was appended before its token was known. The row is not published
  // yet.
  void SetToken(uint32_t index, uint32_t token);
  // Adopts cached pages for the beginning of `rows`, which are to be fed next. Adopts whole pages
  // only, no more than `most_pages`, and only if the sequence ends with a full page. Returns how
  // many rows need not be computed.
  uint32_t Adopt(const RowsView& rows, uint32_t most_pages = UINT32_MAX);
  // Adopts those of the history's next pages that are in memory. Neither reads nor copies rows.
  uint32_t Adopt(const History& history);
  // After the last whole page: adopts a cached page whose beginning matches `rows`, which follow.
  // That page is shared, so Reserve copies it, which takes one page more.
  uint32_t AdoptBeginning(const RowsView& rows);

  // A number for the page that `rows`, which come next, would complete first. Equal pages have
  // equal numbers. 0: they complete none, or pages are not shared.
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
  // Does the next token go to a page that others have too?
  bool NextPageIsShared() const;
  void ReleaseCopySource();
  // The tail becomes `block`, which follows it and is held.
  void TakeAdopted(Block* block);
  // Shortens the table to `keep` pages, no fewer than the tail's.
  void ReleasePagesBehind(uint32_t keep);

  PrefixIndex* index_;
  Block* tail_;  // the last full page; held
  Rows open_;    // the rows after it
  // The block whose page is our partial page, because we were truncated into it; held.
  Block* borrowed_ = nullptr;
  // Pages [first_page_, …). After a fork those of the tail are left out until they are needed.
  mutable std::vector<PageId> table_;
  mutable uint32_t first_page_ = 0;
  // The source of a copy that the device makes.
  Block* copied_block_ = nullptr;
  std::optional<PageId> copied_page_;
};

}  // namespace pie
