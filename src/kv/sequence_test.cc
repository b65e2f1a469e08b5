#include "kv/sequence.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace pie {
namespace {

// Reserve and advance; true if there was room. The copy, if any, is in `copy`.
bool Append(Sequence& sequence, uint32_t tokens, std::optional<PageCopy>& copy) {
  if (!sequence.Reserve(tokens, copy)) return false;
  sequence.Advance(tokens);
  return true;
}

TEST(Sequence, TakesPagesAsItGrows) {
  PagePool pool(4);
  std::optional<PageCopy> copy;
  Sequence sequence(pool, 4);
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
  std::optional<PageCopy> copy;
  Sequence sequence(pool, 4);
  EXPECT_FALSE(sequence.Reserve(9, copy));
  EXPECT_EQ(pool.pages_used(), 0U);
  EXPECT_TRUE(sequence.Reserve(8, copy));
  EXPECT_EQ(sequence.tokens(), 0U);
  EXPECT_TRUE(sequence.Reserve(8, copy));  // already there
  EXPECT_EQ(pool.pages_used(), 2U);
}

TEST(Sequence, ForksShareAllPagesAndCopyThePartialOneOnWrite) {
  PagePool pool(8);
  std::optional<PageCopy> copy;
  Sequence parent(pool, 4);
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
  std::optional<PageCopy> copy;
  Sequence parent(pool, 4);
  ASSERT_TRUE(Append(parent, 8, copy));
  Sequence child = parent.Fork();
  ASSERT_TRUE(Append(child, 1, copy));
  EXPECT_FALSE(copy);
  EXPECT_EQ(pool.pages_used(), 3U);
}

TEST(Sequence, TruncatingIntoASharedPageCopiesItOnTheNextWrite) {
  PagePool pool(8);
  std::optional<PageCopy> copy;
  Sequence parent(pool, 4);
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
  std::optional<PageCopy> copy;
  Sequence sequence(pool, 4);
  ASSERT_TRUE(sequence.Reserve(16, copy));
  sequence.Advance(2);
  const Sequence child = sequence.Fork();
  EXPECT_EQ(child.pages().size(), 1U);
  sequence.Truncate(2);
  EXPECT_EQ(pool.pages_used(), 1U);
}

TEST(Sequence, GivesItsPagesBackWhenItDies) {
  PagePool pool(8);
  std::optional<PageCopy> copy;
  {
    Sequence a(pool, 4);
    ASSERT_TRUE(Append(a, 10, copy));
    Sequence b = a.Fork();
    Sequence c = std::move(b);
    a = std::move(c);
    EXPECT_EQ(pool.pages_used(), 3U);
  }
  EXPECT_EQ(pool.pages_used(), 0U);
  EXPECT_TRUE(pool.CheckIntegrity());
}

// Sequences with real contents, driven at random: whatever is forked, truncated and overwritten,
// every sequence reads back what was written to it, and the pool's books are right.
TEST(Sequence, RandomHistoriesKeepTheirContents) {
  for (uint32_t page_tokens : {1U, 3U, 16U}) {
    std::mt19937 random(page_tokens);
    PagePool pool(60);
    std::map<uint32_t, std::vector<int>> memory;  // page → tokens
    struct Entry {
      Sequence sequence;
      std::vector<int> expected;
    };
    std::vector<Entry> entries;
    int next_token = 0;
    for (int step = 0; step < 3000; ++step) {
      if (entries.empty()) entries.push_back({Sequence(pool, page_tokens), {}});
      Entry& entry = entries[random() % entries.size()];
      switch (random() % 5) {
        case 0:
          if (entries.size() < 8) {
            std::vector<int> expected = entry.expected;
            entries.push_back({entry.sequence.Fork(), std::move(expected)});
          }
          break;
        case 1:
          if (random() % 4 == 0) {
            std::swap(entry, entries.back());
            entries.pop_back();
          }
          break;
        case 2: {
          const auto keep = static_cast<uint32_t>(random() % (entry.expected.size() + 2));
          entry.sequence.Truncate(keep);
          if (keep < entry.expected.size()) entry.expected.resize(keep);
          break;
        }
        default: {
          const uint32_t count = random() % 7;
          const uint32_t needed = entry.sequence.PagesNeeded(count);
          const uint32_t free_before = pool.pages_free();
          std::optional<PageCopy> copy;
          const bool fits = entry.sequence.Reserve(count, copy);
          ASSERT_EQ(fits, needed <= free_before);
          if (!fits) break;
          ASSERT_EQ(free_before - pool.pages_free(), needed);
          if (copy) memory[copy->to.value] = memory[copy->from.value];
          for (uint32_t i = 0; i < count; ++i) {
            const uint32_t slot = entry.sequence.tokens() + i;
            auto& page = memory[entry.sequence.pages()[slot / page_tokens].value];
            page.resize(page_tokens);
            page[slot % page_tokens] = ++next_token;
            entry.expected.push_back(next_token);
          }
          entry.sequence.Advance(count);
        }
      }
      std::vector<PageId> holders;
      for (const Entry& each : entries) {
        ASSERT_EQ(each.sequence.tokens(), each.expected.size());
        for (uint32_t slot = 0; slot < each.expected.size(); ++slot) {
          const PageId page = each.sequence.pages()[slot / page_tokens];
          ASSERT_EQ(memory[page.value][slot % page_tokens], each.expected[slot]);
        }
        for (PageId page : each.sequence.pages()) holders.push_back(page);
      }
      const Status status = pool.CheckIntegrity(holders);
      ASSERT_TRUE(status) << status.error().text;
    }
  }
}

}  // namespace
}  // namespace pie
