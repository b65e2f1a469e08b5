#include "sched/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "sched/testing.h"

namespace pie {
namespace {

using testing::Mirror;

std::vector<uint32_t> Text(uint32_t length, uint32_t seed) {
  std::vector<uint32_t> text(length);
  for (uint32_t i = 0; i < length; ++i) text[i] = (i * 7 + seed * 31) % 256;
  return text;
}

class ViewTest : public testing::SchedulerFixture {
 protected:
  // A view of now. Views are made a few times a second at most.
  std::shared_ptr<const View> Now() {
    EXPECT_TRUE(Idle());
    const int64_t begin_ns = SteadyClock::Get().NowNs();
    for (int i = 0; i < 1'000; ++i) {
      auto view = scheduler_->Watch();
      if (view && view->made_ns >= begin_ns) return view;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "no view was made";
    return nullptr;
  }
  static size_t Count(const View& view, View::State state) {
    return static_cast<size_t>(std::ranges::count(view.pages, state, &View::Page::state));
  }
  AccountId Account(uint64_t owner) {
    auto view = std::make_shared<AccountView>();
    view->owner = owner;
    return scheduler_->OpenAccount(view);
  }
};

TEST_P(ViewTest, SaysWhoHoldsWhichPage) {
  Start({.page_tokens = 16, .total_pages = 64});
  Mirror first{scheduler_->Create({}, Account(7)), {}};
  ExpectAppend(first, Text(100, 1));  // 7 pages
  Mirror second{scheduler_->Create({}, Account(8)), {}};
  ExpectAppend(second, Text(20, 2));  // 2 pages
  auto view = Now();
  ASSERT_TRUE(view);
  EXPECT_EQ(view->pages.size(), 64U);
  EXPECT_EQ(Count(*view, View::State::kHeld), 9U);
  EXPECT_EQ(Count(*view, View::State::kShared), 0U);
  std::map<uint64_t, int> pages;
  for (const View::Page& page : view->pages) {
    if (page.state == View::State::kHeld) ++pages[view->accounts[page.account].owner];
  }
  EXPECT_EQ(pages, (std::map<uint64_t, int>{{7, 7}, {8, 2}}));

  const SequenceId fork = scheduler_->Fork(first.id);
  view = Now();
  EXPECT_EQ(Count(*view, View::State::kShared), 7U) << "the fork has all pages of the first";
  EXPECT_EQ(Count(*view, View::State::kHeld), 2U);

  scheduler_->Drop(fork);
  scheduler_->Drop(first.id);
  view = Now();
  EXPECT_EQ(Count(*view, View::State::kCached), 6U) << "full pages can be found again";
  EXPECT_EQ(Count(*view, View::State::kHeld), 2U);
  EXPECT_EQ(Count(*view, View::State::kFree), 56U);
}

TEST_P(ViewTest, SuspendedContextsHoldNoPages) {
  Start({.page_tokens = 16, .total_pages = 64});
  Mirror mirror{scheduler_->Create({}, Account(7)), {}};
  ExpectAppend(mirror, Text(100, 1));
  scheduler_->Suspend(mirror.id);
  const auto view = Now();
  ASSERT_EQ(view->accounts.size(), 1U);
  EXPECT_EQ(view->accounts[0].contexts, 1U);
  EXPECT_EQ(view->accounts[0].suspended, 1U);
  EXPECT_EQ(view->accounts[0].pages_stored + view->accounts[0].pages_dropped, 7U);
  EXPECT_EQ(Count(*view, View::State::kHeld), 0U);
}

TEST_P(ViewTest, TellsOfBatches) {
  Start({.page_tokens = 16, .total_pages = 64});
  Mirror mirror{scheduler_->Create(), {}};
  ExpectAppend(mirror, Text(40, 1));
  ExpectAppend(mirror, {5});
  const auto view = Now();
  uint32_t batches = 0, rows = 0, members = 0;
  int64_t before_ns = 0;
  for (const BatchBar& bar : view->batches) {
    EXPECT_GT(bar.begin_ns, before_ns);
    before_ns = bar.begin_ns;
    batches += bar.batches;
    rows += bar.rows;
    members += bar.members;
  }
  EXPECT_EQ(rows, 41U);
  EXPECT_EQ(batches, scheduler_->stats().steps);
  EXPECT_EQ(members, batches);
}

TEST_P(ViewTest, ABusySchedulerMakesViewsToo) {
  Start({.page_tokens = 16, .total_pages = 4'096});
  std::vector<Mirror> mirrors;
  for (uint32_t i = 0; i < 200; ++i) {
    mirrors.push_back({scheduler_->Create({}, Account(i + 1)), {}});
    ExpectAppend(mirrors.back(), Text(30, i));
    scheduler_->Watch();
  }
  const auto view = Now();
  EXPECT_EQ(view->accounts.size(), 200U);
  EXPECT_EQ(Count(*view, View::State::kHeld) + Count(*view, View::State::kShared), 400U);
}

PIE_ON_BOTH_DEVICES(ViewTest);

}  // namespace
}  // namespace pie
