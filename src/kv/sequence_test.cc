#include "kv/sequence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "base/random.h"

namespace pie {
namespace {

// Rows that no other call returns, so that no page is shared by chance.
Rows FreshRows(uint32_t count) {
  static uint32_t next = 0;
  Rows rows;
  for (uint32_t i = 0; i < count; ++i) {
    rows.tokens.push_back(next++);
    rows.positions.push_back(i);
  }
  return rows;
}

// Reserve, append and publish; true if there was room. The copy, if any, is in `copy`.
bool Append(Sequence& sequence, const Rows& rows, std::optional<PageCopy>& copy) {
  if (!sequence.Reserve(rows.size(), copy)) return false;
  sequence.Append(rows.view());
  sequence.Publish();
  return true;
}
bool Append(Sequence& sequence, uint32_t tokens, std::optional<PageCopy>& copy) {
  return Append(sequence, FreshRows(tokens), copy);
}

void ExpectBooks(const PrefixIndex& index, PagePool& pool,
                 std::initializer_list<const Sequence*> sequences) {
  std::vector<Block*> blocks;
  std::vector<PageId> pages;
  for (const Sequence* sequence : sequences) sequence->CollectHeld(blocks, pages);
  Status books = index.CheckIntegrity(blocks, pages);
  if (books) books = pool.CheckIntegrity(pages);
  EXPECT_TRUE(books) << books.error().text;
}

TEST(Sequence, TakesPagesAsItGrows) {
  PagePool pool(4);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  Sequence sequence(index);
  EXPECT_EQ(sequence.PagesNeeded(0), 0U);
  EXPECT_EQ(sequence.PagesNeeded(1), 1U);
  EXPECT_EQ(sequence.PagesNeeded(9), 3U);
  EXPECT_TRUE(Append(sequence, 3, copy));
  EXPECT_EQ(sequence.PagesNeeded(1), 0U);
  EXPECT_TRUE(Append(sequence, 1, copy));
  EXPECT_TRUE(Append(sequence, 1, copy));
  EXPECT_FALSE(copy);
  EXPECT_EQ(sequence.pages().size(), 2U);
  EXPECT_EQ(sequence.PagesOf(4).size(), 1U);
  EXPECT_EQ(pool.pages_used(), 2U);
}

TEST(Sequence, ReserveIsAllOrNothing) {
  PagePool pool(2);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  Sequence sequence(index);
  EXPECT_FALSE(sequence.Reserve(9, copy));
  EXPECT_EQ(pool.pages_used(), 0U);
  EXPECT_TRUE(sequence.Reserve(8, copy));
  EXPECT_EQ(sequence.tokens(), 0U);
  EXPECT_TRUE(sequence.Reserve(8, copy));  // already there
  EXPECT_EQ(pool.pages_used(), 2U);
}

TEST(Sequence, TruncatesALongPrefixToEveryLength) {
  constexpr uint32_t kTokens = 131;  // 65 pages of two tokens, and a partial one
  PagePool pool(80);
  PrefixIndex index(pool, 2);
  std::optional<PageCopy> copy;
  Sequence whole(index);
  const Rows rows = FreshRows(kTokens);
  ASSERT_TRUE(Append(whole, rows, copy));
  for (uint32_t length = 0; length <= kTokens; ++length) {
    Sequence part = whole.Fork();
    part.Truncate(length);
    EXPECT_EQ(part.tokens(), length);
    EXPECT_EQ(part.history().TokensFrom(0),
              std::vector(rows.tokens.begin(), rows.tokens.begin() + length));
    const auto pages = part.pages();
    EXPECT_TRUE(std::ranges::equal(pages, whole.PagesOf(length))) << length;
    ExpectBooks(index, pool, {&whole, &part});
  }
}

TEST(Sequence, ForksShareAllPagesAndCopyThePartialOneOnWrite) {
  PagePool pool(8);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  Sequence parent(index);
  ASSERT_TRUE(Append(parent, 6, copy));
  Sequence child = parent.Fork();
  EXPECT_EQ(child.tokens(), 6U);
  EXPECT_EQ(pool.pages_used(), 2U);
  EXPECT_EQ(child.PagesNeeded(1), 1U);

  ASSERT_TRUE(Append(child, 1, copy));
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->from, parent.pages()[1]);
  EXPECT_EQ(copy->to, child.pages()[1]);
  EXPECT_EQ(child.pages()[0], parent.pages()[0]);
  EXPECT_EQ(pool.pages_used(), 3U);

  // Now the parent is alone on its page and writes in place.
  EXPECT_EQ(parent.PagesNeeded(1), 0U);
  ASSERT_TRUE(Append(parent, 1, copy));
  EXPECT_FALSE(copy);
}

TEST(Sequence, FullPagesAreNeverCopied) {
  PagePool pool(8);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  Sequence parent(index);
  ASSERT_TRUE(Append(parent, 8, copy));
  Sequence child = parent.Fork();
  ASSERT_TRUE(Append(child, 1, copy));
  EXPECT_FALSE(copy);
  EXPECT_EQ(pool.pages_used(), 3U);
}

TEST(Sequence, TruncatingIntoASharedPageCopiesItOnTheNextWrite) {
  PagePool pool(8);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  Sequence parent(index);
  ASSERT_TRUE(Append(parent, 8, copy));
  Sequence child = parent.Fork();
  child.Truncate(3);
  EXPECT_EQ(child.pages().size(), 1U);
  ASSERT_TRUE(Append(child, 1, copy));
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->from, parent.pages()[0]);
  child.Truncate(100);  // not longer than it is
  EXPECT_EQ(child.tokens(), 4U);
}

TEST(Sequence, TruncateAndForkLeaveReservedRoomBehind) {
  PagePool pool(8);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  Sequence sequence(index);
  ASSERT_TRUE(sequence.Reserve(16, copy));
  sequence.Append(FreshRows(2).view());
  sequence.Publish();
  const Sequence child = sequence.Fork();
  EXPECT_EQ(child.pages().size(), 1U);
  sequence.Truncate(2);
  EXPECT_EQ(pool.pages_used(), 1U);
}

TEST(Sequence, GivesItsPagesBackWhenItDies) {
  PagePool pool(8);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  {
    Sequence a(index);
    ASSERT_TRUE(Append(a, 10, copy));
    Sequence b = a.Fork();
    Sequence c = std::move(b);
    a = std::move(c);
    EXPECT_EQ(pool.pages_used(), 3U);
  }
  EXPECT_EQ(pool.pages_used(), 0U);
  EXPECT_TRUE(pool.CheckIntegrity());
}

// Sequences with real contents, driven at random: after any forks, truncations, writes, cache hits
// and evictions, every sequence reads back what was written to it, and the counts are right. Few
// different tokens, so that equal beginnings are common.
class RandomHistories {
 public:
  RandomHistories(uint32_t page_tokens, bool share)
      : page_tokens_(page_tokens),
        random_(page_tokens),
        pool_(60),
        index_(pool_, page_tokens, {.share = share}) {}

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      Step();
      if (::testing::Test::HasFatalFailure()) return;
      CheckAll();
    }
  }
  const PrefixStats& stats() const { return index_.stats(); }
  uint64_t copied() const { return copied_; }

 private:
  struct Entry {
    Sequence sequence;
    uint32_t salt = 0;
    std::vector<uint32_t> expected;
  };
  uint32_t Random(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  // The content of a slot. It depends on everything before the slot and on the sequence that wrote
  // it, as real KV does.
  uint64_t Content(const Entry& entry, size_t slot) const {
    uint64_t state = entry.salt;
    for (size_t i = 0; i <= slot; ++i) state = Mix(state, entry.expected[i]);
    return state;
  }

  void Step() {
    if (entries_.empty()) {
      const uint32_t salt = Random(2);
      entries_.push_back({Sequence(index_, {salt, 0}), salt, {}});
    }
    Entry& entry = entries_[Random(static_cast<uint32_t>(entries_.size()))];
    switch (Random(6)) {
      case 0:
        if (entries_.size() < 8) {
          Entry child{entry.sequence.Fork(), entry.salt, entry.expected};
          entries_.push_back(std::move(child));
        }
        break;
      case 1:
        if (Random(3) == 0) {
          std::swap(entry, entries_.back());
          entries_.pop_back();
        }
        break;
      case 2: {
        const uint32_t keep = Random(static_cast<uint32_t>(entry.expected.size()) + 2);
        entry.sequence.Truncate(keep);
        if (keep < entry.expected.size()) entry.expected.resize(keep);
        break;
      }
      case 3:
        SuspendAndRestore(entry);
        break;
      default:
        Feed(entry, Random(3) == 0 ? 3 * page_tokens_ : Random(7));
    }
  }

  void Feed(Entry& entry, uint32_t count) {
    Rows rows;
    for (uint32_t i = 0; i < count; ++i) {
      rows.tokens.push_back(Random(8) == 0 ? 1 : 0);
      rows.positions.push_back(static_cast<uint32_t>(entry.expected.size()) + i);
    }
    Write(entry, rows);
  }

  void Write(Entry& entry, const Rows& rows) {
    uint32_t adopted = entry.sequence.Adopt(rows.view());
    ASSERT_TRUE(index_.stats().hits == 0 || adopted % page_tokens_ == 0);
    const uint32_t copied =
        entry.sequence.AdoptBeginning(rows.view().Sub(adopted, rows.size() - adopted));
    ASSERT_LT(copied, page_tokens_);
    copied_ += copied;
    adopted += copied;
    const RowsView rest = rows.view().Sub(adopted, rows.size() - adopted);
    entry.expected.insert(entry.expected.end(), rows.tokens.begin(), rows.tokens.begin() + adopted);
    const uint32_t needed = entry.sequence.PagesNeeded(rest.size());
    const uint32_t free_before = pool_.pages_free();
    std::optional<PageCopy> copy;
    const bool fits = entry.sequence.Reserve(rest.size(), copy);
    ASSERT_EQ(fits, needed <= free_before);
    if (!fits) return;
    if (copy) memory_[copy->to.value] = memory_[copy->from.value];
    const uint32_t first = entry.sequence.tokens();
    entry.sequence.Append(rest);
    for (uint32_t i = 0; i < rest.size(); ++i) {
      auto& page = memory_[entry.sequence.pages()[(first + i) / page_tokens_].value];
      page.resize(page_tokens_);
      entry.expected.push_back(rest.tokens[i]);
      page[(first + i) % page_tokens_] = Content(entry, first + i);
    }
    entry.sequence.Publish();
  }

  void SuspendAndRestore(Entry& entry) {
    const History history = entry.sequence.history();
    entry.sequence.Clear();
    // Meanwhile others take its pages, perhaps.
    for (uint32_t taken = Random(40); taken > 0 && pool_.pages_free() > 0; --taken) {
      pool_.Release(*pool_.Take());
    }
    if (Random(2) == 0)
      while (index_.pages_cached() > 0) index_.ReleaseOne();
    const Rows rows = history.From(0);
    ASSERT_EQ(rows.tokens, entry.expected);
    const auto part = static_cast<uint32_t>(Random(rows.size() + 1));
    ASSERT_EQ(history.From(part).tokens,
              std::vector(rows.tokens.begin() + part, rows.tokens.end()));
    ASSERT_EQ(history.TokensFrom(part), std::vector(rows.tokens.begin() + part, rows.tokens.end()));
    History shorter = history;
    shorter.Truncate(part);
    ASSERT_EQ(shorter.From(0).tokens, std::vector(rows.tokens.begin(), rows.tokens.begin() + part));
    entry.expected.clear();
    Write(entry, rows);
  }

  void CheckAll() {
    std::vector<PageId> pages;
    std::vector<Block*> blocks;
    for (const Entry& entry : entries_) {
      ASSERT_EQ(entry.sequence.tokens(), entry.expected.size());
      for (uint32_t slot = 0; slot < entry.expected.size(); ++slot) {
        const PageId page = entry.sequence.pages()[slot / page_tokens_];
        ASSERT_EQ(memory_[page.value][slot % page_tokens_], Content(entry, slot));
      }
      entry.sequence.CollectHeld(blocks, pages);
    }
    Status status = index_.CheckIntegrity(blocks, pages);
    if (status) status = pool_.CheckIntegrity(pages);
    ASSERT_TRUE(status) << status.error().text;
  }

  const uint32_t page_tokens_;
  std::mt19937 random_;
  PagePool pool_;
  PrefixIndex index_;
  std::map<uint32_t, std::vector<uint64_t>> memory_;  // page → what its slots hold
  std::vector<Entry> entries_;
  uint64_t copied_ = 0;  // rows
};

TEST(Sequence, RandomHistoriesKeepTheirContents) {
  for (const uint32_t page_tokens : {1U, 3U, 16U}) {
    for (const bool share : {false, true}) {
      RandomHistories histories(page_tokens, share);
      histories.Run(1000);
      if (HasFatalFailure()) return;
      EXPECT_EQ(histories.stats().hits > 0, share);
      EXPECT_EQ(histories.copied() > 0, share && page_tokens > 1);
      EXPECT_EQ(histories.stats().evictions > 0, share);
    }
  }
}

TEST(Sequence, FindsPagesThatOthersOfItsSaltComputed) {
  PagePool pool(8);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  const Rows rows = FreshRows(11);
  std::optional<Sequence> first(std::in_place, index, CacheSalt{1, 0});
  ASSERT_TRUE(Append(*first, rows, copy));
  const std::vector<PageId> pages(first->pages().begin(), first->pages().begin() + 2);
  first.reset();
  EXPECT_EQ(pool.pages_used(), 0U);
  EXPECT_EQ(pool.pages_cached(), 2U);  // a partial page is not kept

  Sequence stranger(index, {2, 0});
  EXPECT_EQ(stranger.Adopt(rows.view()), 0U);
  Sequence second(index, {1, 0});
  EXPECT_EQ(second.Adopt(rows.view().Sub(0, 7)), 4U);
  EXPECT_EQ(second.Adopt(rows.view().Sub(4, 7)), 4U);
  EXPECT_TRUE(std::ranges::equal(second.pages(), pages));
  EXPECT_EQ(index.stats().tokens_saved, 8U);
  ExpectBooks(index, pool, {&stranger, &second});
}

TEST(Sequence, CopiesTheBeginningOfAPageThatGoesOnInAnotherWay) {
  PagePool pool(8);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  const Rows rows = FreshRows(8);
  std::optional<Sequence> first(std::in_place, index, CacheSalt{1, 0});
  ASSERT_TRUE(Append(*first, rows, copy));
  const PageId source = first->pages()[1];
  first.reset();

  Rows other = rows;
  other.tokens[7] += 1000;
  Sequence stranger(index, {2, 0});
  EXPECT_EQ(stranger.AdoptBeginning(other.view()), 0U);
  Sequence second(index, {1, 0});
  EXPECT_EQ(second.Adopt(other.view()), 4U);
  EXPECT_EQ(second.AdoptBeginning(other.view().Sub(4, 4)), 3U);
  EXPECT_EQ(second.AdoptBeginning(other.view().Sub(7, 1)), 0U);  // not at a page's end
  EXPECT_EQ(second.tokens(), 7U);
  EXPECT_EQ(index.stats().tokens_saved, 7U);
  EXPECT_EQ(second.PagesNeeded(1), 1U);
  ASSERT_TRUE(second.Reserve(1, copy));
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->from, source);
  second.Append(other.view().Sub(7, 1));
  second.Publish();
  EXPECT_EQ(Sequence(index, {1, 0}).Adopt(rows.view()), 8U);
  EXPECT_EQ(Sequence(index, {1, 0}).Adopt(other.view()), 8U);
  ExpectBooks(index, pool, {&stranger, &second});
}

TEST(Sequence, OfManyPagesThatBeginAlikeItKnowsTheYoungest) {
  PagePool pool(40);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  const Rows rows = FreshRows(4);
  for (uint32_t i = 0; i < 20; ++i) {
    Rows other = rows;
    other.tokens[i == 0 ? 3 : 1] += 1000 + i;  // the first one has most in common
    Sequence sequence(index);
    ASSERT_TRUE(Append(sequence, other, copy));
    EXPECT_EQ(Sequence(index).AdoptBeginning(rows.view()), i < 8 ? 3U : 1U);
  }
  Sequence all(index);
  ASSERT_TRUE(Append(all, 160, copy));  // takes every page
  EXPECT_EQ(Sequence(index).AdoptBeginning(rows.view()), 0U);
}

TEST(Sequence, APageComputedTwiceIsKeptOnce) {
  PagePool pool(8);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  const Rows rows = FreshRows(8);
  Sequence a(index), b(index);
  ASSERT_TRUE(a.Reserve(8, copy) && b.Reserve(8, copy));
  a.Append(rows.view());
  b.Append(rows.view());
  EXPECT_EQ(pool.pages_used(), 4U);
  a.Publish();
  b.Publish();
  EXPECT_EQ(pool.pages_used(), 2U);
  EXPECT_TRUE(std::ranges::equal(a.pages(), b.pages()));
  EXPECT_EQ(index.stats().merged, 2U);
}

TEST(Sequence, WhatWasAppendedIsNotFoundBeforeItIsPublished) {
  PagePool pool(8);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  const Rows rows = FreshRows(4);
  Sequence a(index), b(index);
  ASSERT_TRUE(a.Reserve(4, copy));
  a.Append(rows.view());
  EXPECT_EQ(b.Adopt(rows.view()), 0U);
  a.Clear();  // it failed
  EXPECT_EQ(b.Adopt(rows.view()), 0U);
  EXPECT_EQ(pool.pages_cached(), 0U);
}

TEST(Sequence, PositionsAndMasksMakeADifference) {
  PagePool pool(8);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  const Rows rows = FreshRows(4);
  Sequence a(index);
  ASSERT_TRUE(Append(a, rows, copy));
  Rows moved = rows;
  ++moved.positions[3];
  Rows masked = rows;
  masked.masks = {{0, 1}, {0, 2}, {0, 3}, {1, 3}};
  Rows causal = rows;
  causal.masks = {{0, 1}, {0, 2}, {0, 9}, {0, 100}};
  Rows clipped;
  clipped.Append(causal.view(), 0);
  EXPECT_EQ(Sequence(index).Adopt(moved.view()), 0U);
  EXPECT_EQ(Sequence(index).Adopt(masked.view()), 0U);
  EXPECT_EQ(Sequence(index).Adopt(clipped.view()), 4U);
}

TEST(Sequence, AHistoryBringsBackThePagesThatAreStillInMemory) {
  PagePool pool(6);
  PrefixIndex index(pool, 4);
  Rows rows;
  for (uint32_t i = 0; i < 11; ++i) {
    rows.tokens.push_back(i);
    rows.positions.push_back(i);
  }
  Sequence sequence(index);
  std::optional<PageCopy> copy;
  ASSERT_TRUE(sequence.Reserve(11, copy));
  sequence.Append(rows.view());
  sequence.Publish();
  const History history = sequence.history();
  sequence.Clear();
  EXPECT_EQ(sequence.Adopt(history), 8U);
  EXPECT_EQ(sequence.tokens(), 8U);
  EXPECT_EQ(sequence.Adopt(history), 0U);
  EXPECT_EQ(history.RowsWithin(0, 0), 11U);
  sequence.Clear();
  Sequence other(index);
  ASSERT_TRUE(other.Reserve(20, copy));  // takes the second page, which comes after the first
  EXPECT_EQ(sequence.Adopt(history), 4U);
}

TEST(Sequence, EvictsLeavesFirstAndWhatWasNeededLongestAgo) {
  PagePool pool(6);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  const Rows old_rows = FreshRows(12), young_rows = FreshRows(12);
  {
    Sequence old(index);
    ASSERT_TRUE(Append(old, old_rows, copy));
  }
  {
    Sequence young(index);
    ASSERT_TRUE(Append(young, young_rows, copy));
  }
  EXPECT_EQ(pool.pages_cached(), 6U);
  Sequence newcomer(index);
  ASSERT_TRUE(Append(newcomer, 8, copy));  // takes two
  EXPECT_EQ(Sequence(index).Adopt(old_rows.view()), 4U);
  EXPECT_EQ(Sequence(index).Adopt(young_rows.view()), 12U);
  ASSERT_TRUE(Append(newcomer, 16, copy));  // and all
  EXPECT_EQ(index.stats().evictions, 6U);
  EXPECT_EQ(Sequence(index).Adopt(young_rows.view()), 0U);
  EXPECT_EQ(newcomer.PagesNeeded(1), 1U);
  EXPECT_FALSE(newcomer.Reserve(1, copy));
}

TEST(Sequence, ACopysSourceStaysUntilTheCopyIsMade) {
  PagePool pool(3);
  PrefixIndex index(pool, 4);
  std::optional<PageCopy> copy;
  Sequence sequence(index);
  ASSERT_TRUE(Append(sequence, 4, copy));
  sequence.Truncate(2);  // its page is in the index, and may be another's
  ASSERT_TRUE(sequence.Reserve(1, copy));
  ASSERT_TRUE(copy);
  Sequence other(index);
  EXPECT_TRUE(other.Reserve(4, copy));
  EXPECT_FALSE(other.Reserve(5, copy));  // the source is still read from
  sequence.Append(FreshRows(1).view());
  sequence.Publish();
  EXPECT_TRUE(other.Reserve(5, copy));
}

}  // namespace
}  // namespace pie
