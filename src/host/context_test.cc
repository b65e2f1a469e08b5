#include "host/context.h"

#include <gtest/gtest.h>

#include "backend/dummy/dummy_backend.h"
#include "host/snapshots.h"

namespace pie::host {
namespace {

// Pages of 4 tokens, 8 of them, at most 20 positions.
class ContextTest : public testing::Test {
 protected:
  std::unique_ptr<Context> New(uint32_t model = 0) {
    return std::make_unique<Context>(&scheduler_, model, scheduler_.Create(), Extent{});
  }
  // Queues a pass over `count` tokens.
  static Status Append(Context& context, uint32_t count) {
    Forward forward;
    for (uint32_t i = 0; i < count; ++i) {
      forward.tokens.push_back('a' + i);
      forward.positions.push_back(context.tokens() + i);
    }
    return context.Execute(std::move(forward));
  }
  static void ExpectExtent(const Context& context, uint32_t committed, uint32_t working,
                           uint32_t tokens) {
    EXPECT_EQ(context.extent().committed_pages, committed);
    EXPECT_EQ(context.extent().working_pages, working);
    EXPECT_EQ(context.extent().working_tokens, tokens);
  }
  // Returns the state of the step thread, which the shadow counts must equal.
  SchedulerStats Settled() {
    EXPECT_TRUE(scheduler_.WaitIdle(5000));
    return scheduler_.stats();
  }
  template <class T>
  static std::string TextOf(const Result<T>& result) {
    return result ? "" : result.error().text;
  }

  Scheduler scheduler_{MakeDummyBackend({.page_tokens = 4, .total_pages = 8, .max_positions = 20}),
                       {.check_integrity = true}};
};

TEST_F(ContextTest, CountsFollowTheSequence) {
  auto context = New();
  ExpectExtent(*context, 0, 0, 0);
  ASSERT_TRUE(context->Reserve(3));
  ExpectExtent(*context, 0, 3, 0);
  ASSERT_TRUE(Append(*context, 9));
  ExpectExtent(*context, 0, 3, 9);
  ASSERT_TRUE(context->Commit(2));
  ExpectExtent(*context, 2, 1, 1);
  EXPECT_EQ(context->tokens(), 9u);
  EXPECT_EQ(Settled().pages_used, 3u);
  context.reset();
  EXPECT_EQ(Settled().pages_used, 0u);
  EXPECT_EQ(Settled().sequences, 0u);
}

TEST_F(ContextTest, CountsTheTokensThatWereNotComputed) {
  auto first = New();
  ASSERT_TRUE(first->Reserve(3));
  ASSERT_TRUE(Append(*first, 9));
  EXPECT_EQ(Settled().tokens, 9u);
  EXPECT_EQ(first->cached_tokens(), 0u);
  auto second = New();
  ASSERT_TRUE(second->Reserve(3));
  ASSERT_TRUE(Append(*second, 9));
  const uint64_t computed = Settled().tokens - 9;
  EXPECT_GE(second->cached_tokens(), 8u);  // two pages
  EXPECT_EQ(second->cached_tokens() + computed, 9u);
  EXPECT_EQ(first->cached_tokens(), 0u);
  EXPECT_EQ((*second->Fork())->cached_tokens(), 0u);
}

TEST_F(ContextTest, RowsAreChargedUntilTheyAreGone) {
  const size_t page = PageRowBytes(4);
  auto budget = std::make_shared<ByteBudget>(4 * page);
  auto context = New();
  context->PayRowsFrom(Charge(budget));
  ASSERT_TRUE(context->Reserve(5));
  ASSERT_TRUE(Append(*context, 9));
  EXPECT_EQ(budget->used(), 3 * page);
  ASSERT_TRUE(context->Suspend());
  EXPECT_EQ(budget->used(), 3 * page) << "a suspended context keeps its rows";
  auto fork = *context->Fork();
  EXPECT_EQ(budget->used(), 3 * page);
  EXPECT_NE(TextOf(Append(*context, 8)).find("memory limit"), std::string::npos);
  EXPECT_EQ(context->tokens(), 9u) << "a refused pass counts nothing";
  ASSERT_TRUE(Append(*context, 7));
  EXPECT_EQ(budget->used(), 4 * page);
  ASSERT_TRUE(context->Truncate(8));
  EXPECT_EQ(budget->used(), 3 * page);
  context.reset();
  EXPECT_EQ(budget->used(), 3 * page);
  fork.reset();
  EXPECT_EQ(budget->used(), 0u);
}

TEST_F(ContextTest, CommitTakesFullPagesOnly) {
  auto context = New();
  ASSERT_TRUE(context->Reserve(2));
  ASSERT_TRUE(Append(*context, 7));
  EXPECT_EQ(TextOf(context->Commit(2)), "cannot commit 2 working pages: 1 are full");
  ExpectExtent(*context, 0, 2, 7);
  EXPECT_TRUE(context->Commit(0));
  EXPECT_TRUE(context->Commit(1));
  EXPECT_EQ(TextOf(context->Commit(UINT32_MAX)),
            "cannot commit 4294967295 working pages: 0 are full");
}

TEST_F(ContextTest, ReserveEndsAtTheDevice) {
  auto context = New();
  EXPECT_TRUE(context->Reserve(8));
  EXPECT_EQ(TextOf(context->Reserve(1)),
            "cannot reserve 1 pages: the context would hold 9, the device has 8");
  EXPECT_FALSE(context->Reserve(UINT32_MAX));
  ExpectExtent(*context, 0, 8, 0);
}

TEST_F(ContextTest, ExecuteNeedsRoom) {
  auto context = New();
  EXPECT_EQ(TextOf(Append(*context, 1)),
            "1 tokens do not fit the working pages: 0 of 0 places are free; reserve pages first");
  ASSERT_TRUE(context->Reserve(1));
  ASSERT_TRUE(Append(*context, 3));
  EXPECT_EQ(TextOf(Append(*context, 2)),
            "2 tokens do not fit the working pages: 1 of 4 places are free; reserve pages first");
  EXPECT_TRUE(Append(*context, 1));
  ExpectExtent(*context, 0, 1, 4);
}

TEST_F(ContextTest, ExecuteEndsAtTheModelsLength) {
  auto context = New();
  ASSERT_TRUE(context->Reserve(6));
  ASSERT_TRUE(Append(*context, 20));
  EXPECT_EQ(TextOf(Append(*context, 1)),
            "the sequence would have 21 tokens; this model takes at most 20");
  EXPECT_EQ(context->tokens(), 20u) << "a refused pass counts nothing";
}

// A chain fails with the error, and at the place, at which a loop of passes would fail.
TEST_F(ContextTest, RoomBehindAPassEndsWhereALoopWould) {
  auto context = New();
  ASSERT_TRUE(context->Reserve(5));
  ASSERT_TRUE(Append(*context, 6));
  Forward forward;
  forward.tokens = {'a', 'b'};
  forward.positions = {6, 7};
  const Context::Room room = context->RoomBehind(forward);
  EXPECT_EQ(room.passes, 12u);
  EXPECT_EQ(room.error.text, "position 20 is past this model's last position, 19");
  forward.positions = {0, 1};  // positions need not follow the length
  EXPECT_EQ(context->RoomBehind(forward).passes, 12u);
  EXPECT_EQ(context->RoomBehind(forward).error.text,
            "the sequence would have 21 tokens; this model takes at most 20");
  forward.positions = {6, 19};
  EXPECT_EQ(context->RoomBehind(forward).passes, 0u);
}

TEST_F(ContextTest, ReleaseDropsTokensOfItsPages) {
  auto context = New();
  ASSERT_TRUE(context->Reserve(4));
  ASSERT_TRUE(Append(*context, 10));
  ASSERT_TRUE(context->Release(1));  // was empty
  ExpectExtent(*context, 0, 3, 10);
  ASSERT_TRUE(context->Release(1));
  ExpectExtent(*context, 0, 2, 8);
  EXPECT_EQ(Settled().pages_used, 2u);
  EXPECT_EQ(TextOf(context->Release(3)), "cannot release 3 working pages: the context has 2");
  ASSERT_TRUE(context->Release(2));
  EXPECT_EQ(Settled().pages_used, 0u);
}

TEST_F(ContextTest, ReleaseLeavesCommittedPages) {
  auto context = New();
  ASSERT_TRUE(context->Reserve(2));
  ASSERT_TRUE(Append(*context, 6));
  ASSERT_TRUE(context->Commit(1));
  ASSERT_TRUE(context->Release(1));
  ExpectExtent(*context, 1, 0, 0);
  EXPECT_FALSE(context->Release(1));
  EXPECT_EQ(Settled().pages_used, 1u);
}

TEST_F(ContextTest, TruncateDropsWorkingTokens) {
  auto context = New();
  ASSERT_TRUE(context->Reserve(2));
  ASSERT_TRUE(Append(*context, 6));
  ASSERT_TRUE(context->Commit(1));
  EXPECT_EQ(TextOf(context->Truncate(7)), "cannot truncate 7 tokens: the context holds 6");
  ASSERT_TRUE(context->Truncate(0));
  ASSERT_TRUE(context->Truncate(2));
  ExpectExtent(*context, 1, 1, 0);
  EXPECT_EQ(Settled().pages_used, 1u);
  EXPECT_TRUE(Append(*context, 4)) << "the page is still reserved";
}

// The page that the cut reaches becomes a working page again. A fork that shares it keeps its
// tokens.
TEST_F(ContextTest, TruncateGoesBackIntoCommittedPages) {
  auto context = New();
  ASSERT_TRUE(context->Reserve(3));
  ASSERT_TRUE(Append(*context, 10));
  ASSERT_TRUE(context->Commit(2));
  auto fork = *context->Fork();
  ASSERT_TRUE(context->Truncate(4));
  ExpectExtent(*context, 1, 2, 2);
  ASSERT_TRUE(Append(*context, 3));
  ExpectExtent(*context, 1, 2, 5);
  ExpectExtent(*fork, 2, 1, 2);
  ASSERT_TRUE(Append(*fork, 1));
  EXPECT_EQ(Settled().pages_used, 5u) << "the first page is shared";
  ASSERT_TRUE(context->Truncate(9));
  ExpectExtent(*context, 0, 3, 0);
  ASSERT_TRUE(Append(*context, 12));
  fork.reset();
  EXPECT_EQ(Settled().pages_used, 3u);
}

TEST_F(ContextTest, ForkSharesPagesAndGoesItsOwnWay) {
  auto context = New();
  ASSERT_TRUE(context->Reserve(3));
  ASSERT_TRUE(Append(*context, 8));
  ASSERT_TRUE(context->Commit(2));
  auto fork = *context->Fork();
  ExpectExtent(*fork, 2, 1, 0);
  EXPECT_EQ(Settled().pages_used, 2u);
  ASSERT_TRUE(Append(*fork, 2));
  ExpectExtent(*context, 2, 1, 0);
  ExpectExtent(*fork, 2, 1, 2);
  EXPECT_EQ(Settled().pages_used, 3u);
  context.reset();
  EXPECT_EQ(Settled().pages_used, 3u);
  fork.reset();
  EXPECT_EQ(Settled().pages_used, 0u);
}

TEST_F(ContextTest, DestroyedSaysSoToEverything) {
  auto context = New();
  ASSERT_TRUE(context->Reserve(1));
  context->Destroy();
  context->Destroy();
  const std::string text = "this context was destroyed";
  EXPECT_EQ(TextOf(context->Reserve(1)), text);
  EXPECT_EQ(TextOf(context->Release(1)), text);
  EXPECT_EQ(TextOf(context->Commit(0)), text);
  EXPECT_EQ(TextOf(context->Truncate(0)), text);
  EXPECT_EQ(TextOf(Append(*context, 1)), text);
  EXPECT_EQ(context->Fork().error().text, text);
  EXPECT_EQ(Settled().sequences, 0u);
}

class SnapshotsTest : public ContextTest {
 protected:
  SnapshotsTest() { limits_.max_snapshots = 2; }
  std::unique_ptr<Context> WithTokens(uint32_t count) {
    auto context = New();
    EXPECT_TRUE(context->Reserve(count / 4 + 1));
    EXPECT_TRUE(Append(*context, count));
    return context;
  }
  Limits limits_;
  Snapshots snapshots_{limits_};
};

TEST_F(SnapshotsTest, OpenGivesACopyEachTime) {
  auto context = WithTokens(5);
  ASSERT_TRUE(snapshots_.Save("ada", "s", *context));
  ASSERT_TRUE(Append(*context, 1));  // later changes are not in it
  auto one = *snapshots_.Open("ada", 0, "s"), two = *snapshots_.Open("ada", 0, "s");
  ExpectExtent(*one, 0, 2, 5);
  ASSERT_TRUE(Append(*one, 3));
  ExpectExtent(*two, 0, 2, 5);
  EXPECT_EQ(snapshots_.size(), 1u);
}

TEST_F(SnapshotsTest, OutlivesItsContext) {
  ASSERT_TRUE(snapshots_.Save("ada", "s", *WithTokens(5)));
  EXPECT_EQ(Settled().sequences, 1u);
  EXPECT_EQ(Settled().pages_used, 2u);
  EXPECT_EQ((*snapshots_.Open("ada", 0, "s"))->tokens(), 5u);
}

TEST_F(SnapshotsTest, TakeAndDeleteRemove) {
  ASSERT_TRUE(snapshots_.Save("ada", "s", *WithTokens(5)));
  auto taken = snapshots_.Take("ada", 0, "s");
  ASSERT_TRUE(taken);
  EXPECT_EQ((*taken)->tokens(), 5u);
  EXPECT_EQ(snapshots_.Take("ada", 0, "s").error().text, "no snapshot is named 's'");
  EXPECT_EQ(snapshots_.Delete("ada", 0, "s").error().code, Code::kNotFound);
  ASSERT_TRUE(snapshots_.Save("ada", "s", **taken));
  EXPECT_TRUE(snapshots_.Delete("ada", 0, "s"));
  EXPECT_EQ(snapshots_.size(), 0u);
  taken->reset();
  EXPECT_EQ(Settled().pages_used, 0u);
}

TEST_F(SnapshotsTest, UsersAndModelsAreApart) {
  auto context = WithTokens(5);
  ASSERT_TRUE(snapshots_.Save("ada", "s", *context));
  EXPECT_FALSE(snapshots_.Open("bob", 0, "s"));
  EXPECT_FALSE(snapshots_.Delete("bob", 0, "s"));
  EXPECT_FALSE(snapshots_.Open("ada", 1, "s"));
  ASSERT_TRUE(snapshots_.Save("bob", "s", *context));
  EXPECT_EQ(snapshots_.size(), 2u);
}

TEST_F(SnapshotsTest, SavingAgainReplaces) {
  ASSERT_TRUE(snapshots_.Save("ada", "s", *WithTokens(5)));
  ASSERT_TRUE(snapshots_.Save("ada", "s", *WithTokens(3)));
  EXPECT_EQ(snapshots_.size(), 1u);
  EXPECT_EQ((*snapshots_.Open("ada", 0, "s"))->tokens(), 3u);
  EXPECT_EQ(Settled().sequences, 1u) << "the older one gave its pages back";
}

TEST_F(SnapshotsTest, EachUserHasALimit) {
  auto context = WithTokens(1);
  ASSERT_TRUE(snapshots_.Save("ada", "1", *context));
  ASSERT_TRUE(snapshots_.Save("ada", "2", *context));
  EXPECT_EQ(TextOf(snapshots_.Save("ada", "3", *context)),
            "user ada has 2 snapshots already; delete some");
  EXPECT_TRUE(snapshots_.Save("ada", "2", *context)) << "replacing adds none";
  EXPECT_TRUE(snapshots_.Save("bob", "3", *context));
  ASSERT_TRUE(snapshots_.Delete("ada", 0, "1"));
  EXPECT_TRUE(snapshots_.Save("ada", "3", *context));
}

TEST_F(SnapshotsTest, NamesAreChecked) {
  auto context = WithTokens(1);
  EXPECT_EQ(TextOf(snapshots_.Save("ada", "", *context)), "a snapshot needs a name");
  EXPECT_TRUE(snapshots_.Save("ada", std::string(256, 'n'), *context));
  EXPECT_FALSE(snapshots_.Save("ada", std::string(257, 'n'), *context));
}

TEST_F(SnapshotsTest, UnnamedNeverReplacesANamedOne) {
  auto named = WithTokens(5), other = WithTokens(3);
  ASSERT_TRUE(snapshots_.Save("ada", "snapshot-1", *named));
  auto saved = snapshots_.SaveUnnamed("ada", *other);
  ASSERT_TRUE(saved);
  const std::string name = *(*saved)->Take();
  EXPECT_NE(name, "snapshot-1");
  EXPECT_EQ((*snapshots_.Open("ada", 0, "snapshot-1"))->tokens(), 5u);
  EXPECT_EQ((*snapshots_.Open("ada", 0, name))->tokens(), 3u);
}

TEST_F(SnapshotsTest, DestroyedContextCannotBeSaved) {
  auto context = WithTokens(1);
  context->Destroy();
  EXPECT_EQ(TextOf(snapshots_.Save("ada", "s", *context)), "this context was destroyed");
  EXPECT_EQ(snapshots_.size(), 0u);
}

}  // namespace
}  // namespace pie::host
