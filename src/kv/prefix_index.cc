#include "kv/prefix_index.h"

#include <algorithm>
#include <bit>

#include "base/random.h"

namespace pie {
namespace {

// Attention to this many tokens costs about as much as the rest of a layer.
constexpr double kTokensThatDouble = 4096;
// A page that costs twice as much counts as if it had been needed later, by this share of all
// pages.
constexpr double kShareOfMemory = 0.25;
// Limit on the pages after one parent that begin with the same row and are remembered.
constexpr size_t kBeginnings = 8;
// Pages with larger masks are not kept for later: their owner does not pay for them any longer.
constexpr size_t kMostCachedMaskBytes = 4'096;

bool IsRoot(const Block& block) {
  return block.parent == nullptr;
}

// A chain of n blocks is climbed in O(log n) steps. Jumps have the lengths of the digits of a
// skew-binary number: two jumps of equal length become one that is longer by a block.
Block* JumpOf(Block* parent) {
  Block* const jump = parent->jump;
  const bool equal = parent->pages - jump->pages == jump->pages - jump->jump->pages;
  return equal ? jump->jump : parent;
}

Block* AncestorOf(Block* block, uint32_t pages) {
  while (block->pages > pages) block = block->jump->pages >= pages ? block->jump : block->parent;
  return block;
}

bool IsLeaf(const Block& block) {
  return block.page && block.pins == 0 && block.children_with_page == 0;
}

}  // namespace

PrefixIndex::PrefixIndex(PagePool& pool, uint32_t page_tokens, PrefixOptions options)
    : pool_(pool), page_tokens_(page_tokens), options_(options) {
  pool_.SetCache(this);
}

PrefixIndex::~PrefixIndex() {
  while (cached_ > 0) ReleaseOne();
  pool_.SetCache(nullptr);
}

BlockDigest PrefixIndex::DigestOf(const Block& parent, const RowsView& rows) const {
  uint64_t high = parent.digest.high;
  uint64_t low = parent.digest.low;
  const auto add = [&](uint64_t word) {
    high = Mix(high ^ word);
    low = Mix(low + word * 0xD1B54A32D192ED03ULL);
  };
  for (uint32_t i = 0; i < rows.size(); ++i) {
    add(uint64_t{rows.tokens[i]} << 32 | rows.positions[i]);
  }
  for (const Brle& mask : rows.masks) {
    add(mask.size());
    for (uint32_t run : mask) add(run);
  }
  for (uint32_t i = 0; i < rows.size() && !rows.adapters.empty(); ++i) {
    const RowAdapter adapter = rows.adapter(i);
    if (adapter == RowAdapter()) continue;
    add(i);
    add(adapter.version);
    add(static_cast<uint64_t>(adapter.seed));
    add(std::bit_cast<uint32_t>(adapter.sigma));
  }
  return {high, low};
}

uint64_t PrefixIndex::NumberOf(const Block& parent, const RowsView& rows) const {
  if (!options_.share) return 0;
  const BlockDigest digest = DigestOf(parent, rows);
  return std::max<uint64_t>(1, Mix(digest.high, digest.low));
}

Block* PrefixIndex::HoldRoot(const CacheSalt& salt) {
  Block*& root = roots_[salt];
  if (root == nullptr) {
    auto made = std::make_unique<Block>();
    made->digest = {Mix(options_.seed, salt.high, salt.low), Mix(options_.seed, salt.low, 1)};
    made->salt = salt;
    root = made.get();
    root->jump = root;
    blocks_[root] = std::move(made);
  }
  Hold(root);
  return root;
}

void PrefixIndex::Hold(Block* block) {
  PIE_CHECK(IsRoot(*block) || block->page);
  Ref(block);
  Pin(block);
}

void PrefixIndex::Drop(Block* block) {
  Unpin(block);
  Unref(block);
}

void PrefixIndex::Unref(Block* block) {
  PIE_CHECK(block->refs > 0);
  --block->refs;
  EraseUnused(block);
}

// Erases a block without references whose page is gone, and then perhaps its parents.
void PrefixIndex::EraseUnused(Block* block) {
  while (block != nullptr && block->refs == 0 && !block->page) {
    Block* const parent = block->parent;
    if (block->indexed) RemoveFromIndex(block);
    if (parent == nullptr) {
      roots_.erase(block->salt);
    } else {
      --parent->refs;
    }
    blocks_.erase(block);
    block = parent;
  }
}

void PrefixIndex::Pin(Block* block) {
  while (block != nullptr && block->pins++ == 0) {
    if (block->page) {
      if (block->children_with_page == 0) leaves_.erase(block->value);
      --cached_;
    }
    block = block->parent;
  }
}

void PrefixIndex::Unpin(Block* block) {
  while (block != nullptr) {
    PIE_CHECK(block->pins > 0);
    if (--block->pins > 0) return;
    Block* const parent = block->parent;
    if (block->page) {
      ++cached_;
      const double cost = 1 + block->pages * static_cast<double>(page_tokens_) / kTokensThatDouble;
      ++released_;
      block->value = {
          static_cast<double>(released_) + (cost - 1) * kShareOfMemory * pool_.pages_total(),
          released_};
      if (block->children_with_page == 0) leaves_[block->value] = block;
      if (!options_.share || block->heavy) TakePage(block);
    }
    block = parent;
  }
}

void PrefixIndex::ReleaseOne() {
  PIE_CHECK(!leaves_.empty());
  Block* const block = leaves_.begin()->second;
  TakePage(block);
  ++stats_.evictions;
  EraseUnused(block);
}

// The holder's reference keeps the block alive meanwhile; ReleaseOne erases the rest.
void PrefixIndex::TakePage(Block* block) {
  PIE_CHECK(IsLeaf(*block));
  leaves_.erase(block->value);
  --cached_;
  pool_.Release(*block->page);
  block->page.reset();
  Block* const parent = block->parent;
  --parent->children_with_page;
  if (IsLeaf(*parent)) leaves_[parent->value] = parent;
}

Block* PrefixIndex::Find(const Block* parent, const BlockDigest& digest,
                         const RowsView& rows) const {
  const auto found = index_.find(digest);
  if (found == index_.end()) return nullptr;
  Block* const block = found->second;
  return block->parent == parent && block->rows == rows ? block : nullptr;
}

void PrefixIndex::AddToIndex(Block* block) {
  block->indexed = index_.try_emplace(block->digest, block).second;
  if (!block->indexed) return;  // another block with the same digest came first
  std::vector<Block*>& alike = beginnings_[DigestOf(*block->parent, block->rows.view().Sub(0, 1))];
  if (alike.size() == kBeginnings) alike.erase(alike.begin());
  alike.push_back(block);
}

void PrefixIndex::RemoveFromIndex(Block* block) {
  index_.erase(block->digest);
  const auto found = beginnings_.find(DigestOf(*block->parent, block->rows.view().Sub(0, 1)));
  if (found == beginnings_.end()) return;
  std::erase(found->second, block);
  if (found->second.empty()) beginnings_.erase(found);
}

std::pair<Block*, uint32_t> PrefixIndex::Borrow(const Block& parent, const RowsView& rows) {
  std::pair<Block*, uint32_t> best = {nullptr, 0};
  if (!options_.share || rows.size() == 0) return best;
  const auto found = beginnings_.find(DigestOf(parent, rows.Sub(0, 1)));
  if (found == beginnings_.end()) return best;
  for (Block* const block : found->second) {
    if (block->parent != &parent || !block->page) continue;
    const uint32_t count = EqualRows(block->rows.view(), rows);
    if (count >= best.second && count > 0 && count < page_tokens_) best = {block, count};
  }
  if (best.first != nullptr) Hold(best.first);
  stats_.tokens_saved += best.second;
  return best;
}

Block* PrefixIndex::Descend(Block* parent, const RowsView& rows) {
  if (!options_.share || rows.size() != page_tokens_) return nullptr;
  Block* const block = Find(parent, DigestOf(*parent, rows), rows);
  return block != nullptr && DescendTo(parent, block) ? block : nullptr;
}

bool PrefixIndex::DescendTo(Block* parent, Block* block) {
  if (!options_.share || block->parent != parent || !block->page) return false;
  ++stats_.hits;
  stats_.tokens_saved += page_tokens_;
  Hold(block);
  Drop(parent);
  return true;
}

Block* PrefixIndex::Extend(Block* parent, Rows rows, PageId page) {
  PIE_CHECK(rows.size() == page_tokens_);
  const BlockDigest digest = DigestOf(*parent, rows.view());
  Block* block = options_.share ? Find(parent, digest, rows.view()) : nullptr;
  if (block != nullptr && block->page) {
    pool_.Release(page);
    ++stats_.merged;
  } else {
    if (block == nullptr) {
      auto made = std::make_unique<Block>();
      made->parent = parent;
      made->jump = JumpOf(parent);
      made->pages = parent->pages + 1;
      made->digest = digest;
      made->rows = std::move(rows);
      made->heavy = parent->heavy || MaskBytes(made->rows) > kMostCachedMaskBytes;
      block = made.get();
      if (options_.share) AddToIndex(block);
      blocks_[block] = std::move(made);
      Ref(parent);
    }
    block->page = page;
    if (block->pins == 0) {
      // A block without pins would be cached; the caller's pin comes at once.
      ++cached_;
      block->value = {0, ++released_};
      leaves_[block->value] = block;
    }
    ++parent->children_with_page;
  }
  Hold(block);
  Drop(parent);
  return block;
}

Block* PrefixIndex::Ascend(Block* block, uint32_t pages) {
  Block* const ancestor = AncestorOf(block, pages);
  Hold(ancestor);
  Drop(block);
  return ancestor;
}

Status PrefixIndex::CheckIntegrity(std::span<Block* const> pinned, std::vector<PageId>& pages,
                                   const Interruption& interruption) const {
  for (const auto& [block, owned] : blocks_) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    block->counted = {};
  }
  for (Block* block : pinned) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    if (!blocks_.contains(block)) {
      return Fail(Code::kInternal, "a sequence holds a block that is not in the index");
    }
    while (block != nullptr && block->counted.pins++ == 0) {
      PIE_RETURN_IF_ERROR(interruption.Step());
      block = block->parent;
    }
  }
  uint32_t cached = 0;
  for (const auto& [block, owned] : blocks_) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    if (!IsRoot(*block)) ++block->parent->counted.children;
    if (!block->page) continue;
    pages.push_back(*block->page);
    ++block->parent->counted.children_with_page;
    if (block->pins == 0) ++cached;
  }
  for (const auto& [block, owned] : blocks_) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    const Block::Counts& counted = block->counted;
    const auto wrong = [&](std::string_view what, uint32_t is, uint32_t should) {
      return Fail(Code::kInternal, "block {} ({} pages deep) counts {} {}, it has {}",
                  block->digest.low, block->pages, is, what, should);
    };
    if (block->pins != counted.pins) return wrong("pins", block->pins, counted.pins);
    if (block->children_with_page != counted.children_with_page) {
      return wrong("pages below", block->children_with_page, counted.children_with_page);
    }
    if (block->refs < counted.children) {
      return wrong("references", block->refs, counted.children);
    }
    if (block->refs == 0 && !block->page) return wrong("uses", 0, 0);
    if (IsLeaf(*block) != (leaves_.contains(block->value) && leaves_.at(block->value) == block)) {
      return wrong("places among the leaves", 0, IsLeaf(*block) ? 1 : 0);
    }
    if (block->page && !IsRoot(*block->parent) && !block->parent->page) {
      return Fail(Code::kInternal, "page {} is in memory without the page before it",
                  block->page->value);
    }
    if (block->indexed && index_.at(block->digest) != block) {
      return wrong("entries in the index", 0, 1);
    }
  }
  for (const auto& [digest, alike] : beginnings_) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    for (Block* const block : alike) {
      if (!blocks_.contains(block) || !block->indexed) {
        return Fail(Code::kInternal, "the index of beginnings names a page that is not in memory");
      }
    }
  }
  if (cached != cached_) {
    return Fail(Code::kInternal, "the cache counts {} pages, it has {}", cached_, cached);
  }
  return {};
}

}  // namespace pie
