// History: the rows that a sequence was fed, without its pages. It is what a suspended sequence
// keeps, and enough to compute its pages again.
//
// It shares the rows of full pages with all sequences and histories that have them too, so copying
// a history costs a reference and less than a page of rows, whatever its length. Owner: the step
// thread. The index outlives it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kv/prefix_index.h"
#include "kv/rows.h"

namespace pie {

class History {
 public:
  // Takes a reference of its own on `tail`, the last full page. `open` holds the rows after it.
  History(PrefixIndex& index, Block* tail, Rows open);
  History(const History& other) : History(*other.index_, other.tail_, other.open_) {}
  History(History&& other) noexcept
      : index_(other.index_),
        tail_(std::exchange(other.tail_, nullptr)),
        open_(std::exchange(other.open_, {})) {}
  History& operator=(History other) noexcept;
  ~History();

  uint32_t tokens() const { return tail_->pages * index_->page_tokens() + open_.size(); }
  void Truncate(uint32_t tokens);  // keeps the first `tokens`
  // The first `most` of the rows [first, tokens()), as they can be fed to a device. O(tokens).
  Rows From(uint32_t first, uint32_t most = UINT32_MAX) const;
  // How many rows from `first` on were computed with the same adapter as that one. Copies no rows.
  uint32_t RunFrom(uint32_t first) const;
  // How many rows from `first` on have masks of at most `bytes` together; at least one. Copies no
  // rows.
  uint32_t RowsWithin(uint32_t first, size_t bytes) const;
  // The blocks of the full pages that have rows from `first` on, in order. Valid as long as the
  // history.
  std::vector<Block*> PathFrom(uint32_t first) const;
  // The tokens of these rows. Does not touch their masks, which may be large. O(tokens returned).
  std::vector<uint32_t> TokensFrom(uint32_t first) const;
  // The versions of adapters that rows were computed with, each once. Copies no rows. O(pages), or
  // O(tokens) where the rows of a page have several.
  std::vector<uint64_t> Versions() const;
  // Whether the first `count` rows are a plain text: no row has a mask, and each row's position is
  // its place.
  bool IsText(uint32_t count) const;

 private:
  PrefixIndex* index_;
  Block* tail_;
  Rows open_;
};

}  // namespace pie
