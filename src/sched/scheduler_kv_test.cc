// The scheduler with KV that exists already: equal beginnings, and stored sequences.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <mutex>
#include <random>
#include <string>
#include <string_view>

#include "sched/scheduler.h"
#include "sched/testing.h"

namespace pie {
namespace {

using testing::Mirror;
using testing::Outcome;

std::vector<uint32_t> Text(uint32_t length, uint32_t seed) {
  std::vector<uint32_t> text(length);
  for (uint32_t i = 0; i < length; ++i) text[i] = (i * 7 + seed * 31 + i * i % 13) % 256;
  return text;
}

// Pages in memory, as a file would have them.
class MemoryKv final : public StoredKv {
 public:
  explicit MemoryKv(KvContent content) : content_(std::move(content)) {}
  RowsView rows() const override { return content_.rows.view(); }
  Result<std::span<const std::byte>> Page(uint32_t index) const override {
    if (index == spoilt_page) return Fail(Code::kInternal, "page {} is spoilt", index);
    return content_.pages->Page(index);
  }
  uint32_t spoilt_page = UINT32_MAX;

 private:
  KvContent content_;
};

class SchedulerKvTest : public testing::SchedulerFixture {
 protected:
  void Start(DummyOptions device, PrefixOptions prefix = {}) {
    SchedulerFixture::Start(device, {.prefix = prefix, .check_integrity = true});
  }
  void Settle() { ASSERT_TRUE(Idle()); }
  uint64_t Computed() {
    EXPECT_TRUE(Idle());
    return scheduler_->stats().tokens;
  }
  // Appends and returns the greedy token, which must be right.
  void Append(Mirror& mirror, const std::vector<uint32_t>& tokens) { ExpectAppend(mirror, tokens); }
  Mirror Written(const std::vector<uint32_t>& tokens, CacheSalt salt = {}) {
    Mirror mirror{scheduler_->Create(salt), {}};
    Append(mirror, tokens);
    return mirror;
  }
  Result<KvContent> Read(SequenceId id, uint32_t first = 0, uint32_t pages = 1000) {
    auto promise = std::make_shared<std::promise<Result<KvContent>>>();
    auto content = promise->get_future();
    scheduler_->Read(id, first, pages,
                     [promise](Result<KvContent> got) { promise->set_value(std::move(got)); });
    return content.get();
  }
  std::shared_ptr<MemoryKv> Stored(SequenceId id) {
    Result<KvContent> content = Read(id);
    EXPECT_TRUE(content);
    return std::make_shared<MemoryKv>(*std::move(content));
  }
};

TEST_P(SchedulerKvTest, AnEqualBeginningIsNotComputedAgain) {
  Start({.page_tokens = 16, .total_pages = 64});
  const std::vector<uint32_t> text = Text(100, 1);
  const Mirror first = Written(text);
  EXPECT_EQ(Computed(), 100U);
  scheduler_->Drop(first.id);
  const Mirror second = Written(text);
  EXPECT_EQ(Computed(), 104U);  // six pages were there
  EXPECT_EQ(scheduler_->stats().prefix.tokens_saved, 96U);
  const Mirror stranger = Written(text, {1, 2});
  EXPECT_EQ(Computed(), 204U);
}

TEST_P(SchedulerKvTest, TheLastRowIsComputedWhereItIsRead) {
  Start({.page_tokens = 16, .total_pages = 64});
  const std::vector<uint32_t> text = Text(64, 1);  // whole pages
  Written(text);
  Written(text);
  EXPECT_EQ(Computed(), 64U + 1);  // the last page is copied, except for its last row
  // No row is read, and all pages are in memory, so no batch runs.
  Mirror third{scheduler_->Create(), {}};
  Outcome outcome;
  Forward forward = third.Append(text);
  forward.samples.clear();
  forward.done = outcome.Callback();
  scheduler_->Execute(std::move(forward));
  ASSERT_TRUE(outcome.Get().has_value());
  EXPECT_TRUE(outcome.Get()->has_value());
  EXPECT_EQ(Computed(), 64U + 1);
  Append(third, Text(3, 9));
}

TEST_P(SchedulerKvTest, WhatGoesOnInAnotherWayIsCopiedUpToThere) {
  Start({.page_tokens = 16, .total_pages = 64});
  std::vector<uint32_t> text = Text(26, 1);
  Mirror first = Written(text);
  Append(first, Text(20, 2));  // its second page is full
  EXPECT_EQ(Computed(), 46U);
  for (uint32_t i = 3; i < 6; ++i) {
    Mirror other = Written(text);
    Append(other, Text(20, i));
  }
  EXPECT_EQ(Computed(), 46U + 3 * 21);
  EXPECT_EQ(scheduler_->stats().prefix.tokens_saved, 3 * 25U);
}

TEST_P(SchedulerKvTest, ThePageThatIsCopiedNeedNotFitAsWell) {
  Start({.page_tokens = 16, .total_pages = 4});
  scheduler_->Drop(Written(Text(64, 1)).id);
  std::vector<uint32_t> text = Text(64, 1);
  text[5] = text[5] == 'x' ? 'y' : 'x';
  Written(text);  // fills the memory
  EXPECT_EQ(Computed(), 128U);
}

TEST_P(SchedulerKvTest, WithoutSharingEverythingIsComputed) {
  Start({.page_tokens = 16, .total_pages = 64}, {.share = false});
  const Mirror first = Written(Text(100, 1));
  const Mirror second = Written(Text(100, 1));
  EXPECT_EQ(Computed(), 200U);
  scheduler_->Drop(first.id);
  scheduler_->Drop(second.id);
  Settle();
  EXPECT_EQ(scheduler_->stats().pages_cached, 0U);
}

TEST_P(SchedulerKvTest, CachedPagesAreFreePages) {
  Start({.page_tokens = 16, .total_pages = 8});
  scheduler_->Drop(Written(Text(128, 1)).id);
  Settle();
  EXPECT_EQ(scheduler_->stats().pages_used, 0U);
  EXPECT_EQ(scheduler_->stats().pages_cached, 8U);
  Written(Text(128, 2));
  Settle();
  EXPECT_EQ(scheduler_->stats().prefix.evictions, 8U);
}

TEST_P(SchedulerKvTest, AStoredSequenceGoesOnWithoutBeingComputed) {
  for (const uint32_t page_tokens : {1U, 16U, 64U}) {
    Start({.page_tokens = page_tokens, .total_pages = 256}, {.share = false});
    Mirror mirror = Written(Text(100, 1));
    const auto stored = Stored(mirror.id);
    scheduler_->Drop(mirror.id);
    const uint64_t before = Computed();
    Mirror opened{scheduler_->Open({}, stored), mirror.slots};
    Settle();
    EXPECT_EQ(scheduler_->stats().pages_used, 0U);  // nothing needs it yet
    Append(opened, {65, 66, 67});
    EXPECT_EQ(Computed(), before + 3);
    EXPECT_EQ(scheduler_->stats().pages_restored, (100 + page_tokens - 1) / page_tokens);
    // The same from the middle of the sequence: it is read, truncated and forked before it has any
    // pages.
    Mirror cut{scheduler_->Open({}, stored), mirror.slots};
    EXPECT_EQ(Read(cut.id)->rows.tokens, Text(100, 1));
    scheduler_->Truncate(cut.id, 37);
    cut.slots.resize(37);
    Mirror fork{scheduler_->Fork(cut.id), cut.slots};
    EXPECT_EQ(Read(fork.id)->rows.tokens.size(), 37U);
    Append(cut, {1});
    Append(fork, {2, 3});
    Append(cut, {4});
    EXPECT_EQ(Computed(), before + 3 + 4);
  }
}

TEST_P(SchedulerKvTest, StoredPagesThatAreInMemoryAreNotRead) {
  Start({.page_tokens = 16, .total_pages = 64});
  Mirror mirror = Written(Text(100, 1));
  const auto stored = Stored(mirror.id);
  scheduler_->Drop(mirror.id);
  Mirror opened{scheduler_->Open({}, stored), mirror.slots};
  Append(opened, {65});
  Settle();
  EXPECT_EQ(scheduler_->stats().pages_restored, 1U);  // the partial one
}

TEST_P(SchedulerKvTest, WhatComesBackWithoutABatchIsReadAtOnce) {
  Start({.page_tokens = 16, .total_pages = 64});
  const Mirror mirror = Written(Text(32, 1));
  Settle();
  scheduler_->Suspend(mirror.id);
  Settle();
  const uint64_t before = Computed();
  EXPECT_EQ(Read(mirror.id)->rows.tokens, Text(32, 1));
  EXPECT_EQ(Computed(), before);
}

TEST_P(SchedulerKvTest, ASpoiltPageBreaksThatSequenceAlone) {
  Start({.page_tokens = 16, .total_pages = 64}, {.share = false});
  Mirror mirror = Written(Text(100, 1));
  const auto stored = Stored(mirror.id);
  stored->spoilt_page = 3;
  Mirror opened{scheduler_->Open({}, stored), mirror.slots};
  Outcome outcome;
  Forward forward = opened.Append({65});
  forward.done = outcome.Callback();
  scheduler_->Execute(std::move(forward));
  EXPECT_EQ(outcome.Failure().text, "page 3 is spoilt");
  EXPECT_FALSE(Read(opened.id));
  Append(mirror, {65});
  scheduler_->Drop(mirror.id);
  Settle();
  EXPECT_EQ(scheduler_->stats().pages_used, 0U);
}

TEST_P(SchedulerKvTest, AStoredSequenceThatFindsNoRoomTakesIt) {
  Start({.page_tokens = 16, .total_pages = 8}, {.share = false});
  Mirror mirror = Written(Text(64, 1));
  const auto stored = Stored(mirror.id);
  Mirror big = Written(Text(32, 2));
  Mirror opened{scheduler_->Open({}, stored), mirror.slots};
  Outcome outcome;
  Forward forward = opened.Append({65});
  forward.done = outcome.Callback();
  scheduler_->Execute(std::move(forward));
  EXPECT_EQ(outcome.Token(), opened.Greedy(device_));
  // A sequence that lost its pages can still be read.
  EXPECT_EQ(Stored(mirror.id)->rows().size(), 64U);
  EXPECT_GT(scheduler_->stats().replayed_tokens, 0U);
}

// Forks, truncations, masks, stored sequences, equal beginnings and chains, in all orders: every
// token is that of a plain recomputation.
class Composition : public SchedulerKvTest {
 protected:
  struct Sequence {
    Mirror mirror;
    uint64_t salt = 0;
  };
  uint32_t Random(uint32_t below) { return static_cast<uint32_t>(random_() % below); }

  void Step() {
    if (live_.empty()) {
      const uint64_t salt = Random(2);
      live_.push_back({{scheduler_->Create({salt, 0}), {}}, salt});
    }
    const uint32_t which = Random(static_cast<uint32_t>(live_.size()));
    Mirror& mirror = live_[which].mirror;
    switch (Random(12)) {
      case 0:
        if (live_.size() < 10) {
          Sequence child{{scheduler_->Fork(mirror.id), mirror.slots}, live_[which].salt};
          live_.push_back(std::move(child));
        }
        break;
      case 1: {
        const uint32_t keep = Random(static_cast<uint32_t>(mirror.slots.size()) + 1);
        scheduler_->Truncate(mirror.id, keep);
        mirror.slots.resize(keep);
        break;
      }
      case 2: {
        // Away and back, perhaps while others take its pages.
        const auto stored = Stored(mirror.id);
        if (Random(2) == 0) scheduler_->Drop(mirror.id);
        mirror.id = scheduler_->Open({live_[which].salt, 0}, stored);
        break;
      }
      case 3:
        scheduler_->Drop(mirror.id);
        std::swap(live_[which], live_.back());
        live_.pop_back();
        break;
      case 4:
        Follow(mirror, 1 + Random(12));
        break;
      case 5:
      case 6:
        AppendMasked(mirror);
        break;
      default:
        Append(mirror, Tokens(Random(3) == 0 ? 1 + Random(70) : 1));
    }
    if (!live_.empty() && live_.back().mirror.slots.size() > 300) {
      scheduler_->Truncate(live_.back().mirror.id, 0);
      live_.back().mirror.slots.clear();
    }
  }

  // There are few different tokens, so beginnings are often equal.
  std::vector<uint32_t> Tokens(uint32_t count) {
    std::vector<uint32_t> tokens(count, 'a');
    if (Random(2) == 0) tokens[Random(count)] = 'b';
    return tokens;
  }

  // The last row sees some of what is there.
  void AppendMasked(Mirror& mirror) {
    Forward forward = mirror.Append(Tokens(1 + Random(20)));
    std::vector<DummySlot> seen;
    const auto first = static_cast<uint32_t>(mirror.slots.size() - forward.tokens.size());
    for (uint32_t row = 0; row < forward.tokens.size(); ++row) {
      BrleBuilder mask;
      seen.clear();
      for (uint32_t i = 0; i <= first + row; ++i) {
        if (i < first + row && Random(3) == 0) continue;
        mask.AddTrue(i, i + 1);
        seen.push_back(mirror.slots[i]);
      }
      forward.attention.push_back(std::move(mask).Take());
    }
    Outcome outcome;
    forward.done = outcome.Callback();
    scheduler_->Execute(std::move(forward));
    EXPECT_EQ(outcome.Token(), *Argmax(DummyLogits(device_, seen), nullptr));
  }

  // A chain of passes, of which each feeds what the one before it gave.
  void Follow(Mirror& mirror, uint32_t count) {
    std::vector<uint32_t> given;
    Outcome outcome;
    Forward forward = mirror.Append(Tokens(1));
    forward.chain = std::make_unique<Chain>();
    forward.chain->max_tokens = count;
    forward.chain->seed = [](uint32_t step) { return step; };
    forward.chain->give = [&given](uint32_t token, auto) { given.push_back(token); };
    forward.done = outcome.Callback();
    scheduler_->Execute(std::move(forward));
    ASSERT_TRUE(outcome.Get() && *outcome.Get());
    ASSERT_EQ(given.size(), count);
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(given[i], mirror.Greedy(device_));
      if (i + 1 < count)
        mirror.slots.push_back({given[i], static_cast<uint32_t>(mirror.slots.size())});
    }
  }

  std::mt19937 random_{1};
  std::vector<Sequence> live_;
};

TEST_P(Composition, GivesTheTokensOfAPlainRecomputation) {
  for (const uint32_t page_tokens : {1U, 16U, 64U}) {
    for (const bool share : {false, true}) {
      live_.clear();
      Start({.seed = page_tokens,
             .page_tokens = page_tokens,
             .total_pages = 12'000 / page_tokens,
             .max_batch_tokens = 32},
            {.share = share});
      for (int step = 0; step < 400; ++step) {
        Step();
        if (HasFailure()) FAIL() << "step " << step << ", pages of " << page_tokens;
      }
      Settle();
      EXPECT_EQ(scheduler_->stats().prefix.hits > 0, share);
      EXPECT_GT(scheduler_->stats().pages_restored, 0U);
    }
  }
}

// A device of which each read is as large as a read should be.
class SmallReads final : public testing::AroundDummy {
 public:
  SmallReads() : AroundDummy({.page_tokens = 4, .total_pages = 256}), info_(AroundDummy::info()) {
    info_.read_bytes = 1;
  }
  const BackendInfo& info() const override { return info_; }

 private:
  BackendInfo info_;
};

// The writers of snapshots may ask for pages of many sequences at once.
TEST(SchedulerReadsTest, BatchesRunBetweenManyReads) {
  constexpr int kReads = 8;
  Scheduler scheduler(std::make_unique<SmallReads>(), SchedulerOptions{});
  std::vector<SequenceId> read;
  for (int i = 0; i < kReads; ++i) {
    Mirror mirror{scheduler.Create({}), {}};
    Outcome outcome;
    Forward forward = mirror.Append({uint32_t{'a'}, uint32_t{'b'}});
    forward.done = outcome.Callback();
    scheduler.Execute(std::move(forward));
    outcome.Token();
    read.push_back(mirror.id);
  }
  std::mutex mutex;
  std::string events;  // 't' for a token, 'r' for an answered read
  const auto note = [&](char event) {
    const std::lock_guard lock(mutex);
    events += event;
  };
  Mirror mirror{scheduler.Create({}), {}};
  Outcome outcome;
  Forward forward = mirror.Append({uint32_t{'x'}});
  forward.chain = std::make_unique<Chain>();
  forward.chain->max_tokens = 100;
  forward.chain->give = [&, given = 0](uint32_t, std::optional<Chain::End>) mutable {
    note('t');
    if (++given != 20) return;
    for (const SequenceId id : read) {
      scheduler.Read(id, 0, 1, [&](const Result<KvContent>&) { note('r'); });
    }
  };
  forward.done = outcome.Callback();
  scheduler.Execute(std::move(forward));
  ASSERT_TRUE(outcome.Get());
  ASSERT_TRUE(scheduler.WaitIdle(10'000));
  EXPECT_EQ(std::ranges::count(events, 'r'), kReads);
  const std::string_view between =
      std::string_view(events).substr(events.find('r'), events.rfind('r') - events.find('r'));
  EXPECT_GE(std::ranges::count(between, 't'), kReads / 2) << events;
}

PIE_ON_BOTH_DEVICES(SchedulerKvTest);
PIE_ON_BOTH_DEVICES(Composition);

}  // namespace
}  // namespace pie
