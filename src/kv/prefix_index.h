// PrefixIndex: full pages by their content. Equal beginnings of sequences are one chain of blocks,
// however they came about, so their KV is in memory once.
//
// A Block is a full page with the rows that it was computed from, below the block before it. Its
// digest covers the parent's digest, the tokens, positions, masks and adapters. The digest of the
// first block covers the salt, which keeps users apart. A block that is found by its digest is
// compared row by row before it is used, so a collision costs only a cache miss.
//
// Where no whole page matches, the beginning of one may. The index knows the youngest few of the
// pages after one parent that begin with the same row. A sequence that continues differently
// copies such a page and computes only the rows after the equal ones.
//
// Blocks have two counts. References keep the rows: they are held by sequences and histories that
// end there, and by blocks below. Pins keep the page as well: they are held by sequences that need
// it now, and by pinned blocks below. A page without pins is cached: it counts as free, and is
// dropped when the pool needs one. Leaves are dropped before their parents, the least valuable
// first: those that were needed longest ago. A page that costs more to compute, because deep in a
// context it has more to attend to, counts as if it had been needed later.
//
// Owner: the step thread. The pool outlives it. Calls are O(1), or O(log cached pages), or as long
// as the chain of blocks whose state changes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/interruption.h"
#include "base/result.h"
#include "kv/page_pool.h"
#include "kv/rows.h"

namespace pie {

// Sequences share pages only if they have the same salt. It keeps users apart.
struct CacheSalt {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const CacheSalt&, const CacheSalt&) = default;
};

struct BlockDigest {
  uint64_t high = 0;
  uint64_t low = 0;
  friend bool operator==(const BlockDigest&, const BlockDigest&) = default;
};

struct Block {
  Block* parent = nullptr;  // null: a root, which is not a page but the beginning of a chain
  Block* jump = nullptr;    // an ancestor far above, or itself at a root: see AncestorOf
  uint32_t pages = 0;       // of the chain, up to and including this one
  BlockDigest digest;
  CacheSalt salt;  // of a root
  Rows rows;
  std::optional<PageId> page;  // nullopt: the page was dropped, and only the rows are left
  uint32_t refs = 0;
  uint32_t pins = 0;
  uint32_t children_with_page = 0;
  bool indexed = false;
  bool heavy = false;  // its masks, or those above, take much memory: it is not kept without users
  std::pair<double, uint64_t> value;  // of a cached page; the second breaks ties
  // What CheckIntegrity has counted. It is kept here since a table of its own, with a place for
  // every page, takes long to allocate and to free.
  struct Counts {
    uint32_t pins = 0;
    uint32_t children = 0;
    uint32_t children_with_page = 0;
  } counted;
};

// The memory that the rows of a full page take as long as a sequence or a history refers to them:
// the rows themselves, the block, and its entries in tables.
constexpr size_t PageRowBytes(uint32_t page_tokens) {
  constexpr size_t kTables = 128;
  return 2 * sizeof(uint32_t) * size_t{page_tokens} + sizeof(Block) + kTables;
}

struct PrefixOptions {
  bool share = true;  // find and keep pages; otherwise only forks share them
  uint64_t seed = 0;  // of the digests; a secret, so that guests cannot construct collisions
};

struct PrefixStats {
  uint64_t hits = 0;          // pages that were found instead of computed
  uint64_t tokens_saved = 0;  // rows in them, and rows that were copied
  uint64_t merged = 0;        // pages that were computed and then found to be there already
  uint64_t evictions = 0;
};

class PrefixIndex final : public PageCache {
 public:
  PrefixIndex(PagePool& pool, uint32_t page_tokens, PrefixOptions options = {});
  ~PrefixIndex() override;
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  PagePool& pool() { return pool_; }
  uint32_t page_tokens() const { return page_tokens_; }
  const PrefixStats& stats() const { return stats_; }
  uint32_t pages_cached() const override { return cached_; }
  void ReleaseOne() override;

  // A holder of `block` has one reference (Ref, Unref) or a reference and a pin (Hold, Drop).
  Block* HoldRoot(const CacheSalt& salt);
  void Hold(Block* block);  // its page must be there
  void Drop(Block* block);
  void Ref(Block* block) { ++block->refs; }
  void Unref(Block* block);

  // A number that equal pages share: the page of `rows` after `parent`. 0: pages are not shared.
  uint64_t NumberOf(const Block& parent, const RowsView& rows) const;
  // Finds the block after `parent` that holds a page's worth of `rows`, if its page is in memory.
  // Moves the caller's hold from `parent` to the block. Returns null and changes nothing if there
  // is none.
  Block* Descend(Block* parent, const RowsView& rows);
  // The same with a known block, whose rows are not looked at. Returns false and changes nothing
  // if it is not below `parent`, or its page is not in memory.
  bool DescendTo(Block* parent, Block* block);
  // The same for a page that the caller computed. The block takes the page, or releases it if it
  // has one already.
  Block* Extend(Block* parent, Rows rows, PageId page);
  // Moves the caller's hold to the ancestor that ends after `pages`. O(log pages + length of the
  // chain of blocks that no other caller holds).
  Block* Ascend(Block* block, uint32_t pages);
  // Finds the block after `parent` whose page is in memory and shares the longest beginning with
  // `rows`, and counts the shared rows. The block is held for the caller. Returns null if there is
  // none. O(page).
  std::pair<Block*, uint32_t> Borrow(const Block& parent, const RowsView& rows);

  // `pinned` is the blocks that all sequences hold, with repetition. Appends the pages that blocks
  // hold to `pages`.
  Status CheckIntegrity(std::span<Block* const> pinned, std::vector<PageId>& pages,
                        const Interruption& interruption = {}) const;

 private:
  struct SaltHash {
    size_t operator()(const CacheSalt& salt) const { return salt.high ^ salt.low; }
  };
  struct DigestHash {
    size_t operator()(const BlockDigest& digest) const { return digest.low; }
  };

  BlockDigest DigestOf(const Block& parent, const RowsView& rows) const;
  Block* Find(const Block* parent, const BlockDigest& digest, const RowsView& rows) const;
  void Pin(Block* block);
  void Unpin(Block* block);
  void TakePage(Block* block);  // of a block without pins
  void EraseUnused(Block* block);
  void AddToIndex(Block* block);
  void RemoveFromIndex(Block* block);

  PagePool& pool_;
  const uint32_t page_tokens_;
  const PrefixOptions options_;
  std::unordered_map<Block*, std::unique_ptr<Block>> blocks_;  // roots too
  std::unordered_map<CacheSalt, Block*, SaltHash> roots_;
  std::unordered_map<BlockDigest, Block*, DigestHash> index_;
  // By the digest of the first row, the youngest last.
  std::unordered_map<BlockDigest, std::vector<Block*>, DigestHash> beginnings_;
  // Cached, with nothing cached below, by value.
  std::map<std::pair<double, uint64_t>, Block*> leaves_;
  uint64_t released_ = 0;  // pages so far: the clock of the cache
  uint32_t cached_ = 0;
  PrefixStats stats_;
};

}  // namespace pie
