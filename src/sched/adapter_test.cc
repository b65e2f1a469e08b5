// Adapters on their way through the scheduler: which pages are found by content, and what is
// computed again after a suspension.
#include <gtest/gtest.h>

#include "base/limits.h"
#include "sched/scheduler.h"
#include "sched/testing.h"

namespace pie {
namespace {

using testing::Mirror;
using testing::Outcome;
using Tokens = std::vector<uint32_t>;

class AdapterTest : public testing::SchedulerFixture {
 protected:
  struct Loaded {
    uint64_t version;
    DeviceAdapterPtr weights;
  };
  Loaded Load(uint64_t version, float number) {
    AdapterWeights weights = *MakeAdapter(DummyAdapterShape(), 2, 2);
    weights.layers[0][0].b[0] = number;
    return {version, *scheduler_->LoadAdapter(weights)};
  }
  // A pass under an adapter, which reads the greedy token of its last row.
  static Forward Under(Forward forward, const Loaded& adapter, int64_t seed = 0, float sigma = 0) {
    forward.adapter = {.version = adapter.version, .seed = seed, .sigma = sigma};
    forward.adapter_weights = adapter.weights;
    return forward;
  }
  uint64_t Computed() {
    EXPECT_TRUE(Idle());
    return scheduler_->stats().tokens;
  }
  static Tokens Text(uint32_t length) {
    Tokens text(length);
    for (uint32_t i = 0; i < length; ++i) text[i] = 'a' + i * i % 23;
    return text;
  }
  // Feeds one sequence with different adapters, one after another. Returns the token that each pass
  // chose.
  Tokens RunMixed(const Loaded& first, const Loaded& second) {
    Mirror mirror = Create();
    Tokens chosen;
    const auto run = [&](Forward forward) { chosen.push_back(Run(std::move(forward)).Token()); };
    run(Under(mirror.Append(Text(21)), first));
    run(mirror.Append(Text(9)));
    run(Under(mirror.Append(Text(7)), second));
    run(Under(mirror.Append(Text(5)), second, 3, 0.5F));
    Mirror fork = Fork(mirror);
    run(Under(mirror.Append({'x'}), first));
    run(fork.Append({'x'}));
    scheduler_->Drop(mirror.id);
    scheduler_->Drop(fork.id);
    return chosen;
  }
};

TEST_P(AdapterTest, PagesAreSharedOnlyUnderTheSameVersionAndNoise) {
  Start({.page_tokens = 4, .total_pages = 256});
  const Loaded first = Load(1, 1);
  const Loaded second = Load(2, 2);
  const Tokens text = Text(41);
  const auto cost = [&](const std::function<Forward(Forward)>& change) {
    const uint64_t before = Computed();
    Mirror mirror = Create();
    EXPECT_NE(Run(change(mirror.Append(text))).Token(), UINT32_MAX);
    return Computed() - before;
  };
  const auto plain = [](Forward forward) { return forward; };
  const auto under_first = [&](Forward forward) { return Under(std::move(forward), first); };
  const auto under_second = [&](Forward forward) { return Under(std::move(forward), second); };
  const auto with_noise = [&](Forward forward) {
    return Under(std::move(forward), first, 5, 0.1F);
  };
  const auto other_noise = [&](Forward forward) {
    return Under(std::move(forward), first, -5, 0.1F);
  };
  for (const auto& change : std::initializer_list<std::function<Forward(Forward)>>{
           plain, under_first, under_second, with_noise, other_noise}) {
    EXPECT_EQ(cost(change), 41U);  // finds no pages of other adapters
    EXPECT_EQ(cost(change), 1U);   // finds its own pages
  }
}

TEST_P(AdapterTest, SuspendedSequencesComeBackWithTheirAdapters) {
  Tokens expected;
  for (const uint32_t suspend_every : {0, 1, 2, 3}) {
    Start({.page_tokens = 4, .total_pages = 256}, {.prefix = {.share = false},
                                                   .check_integrity = true,
                                                   .suspend_every_steps = suspend_every});
    const Tokens chosen = RunMixed(Load(1, 1), Load(2, 2));
    if (expected.empty()) expected = chosen;
    EXPECT_EQ(chosen, expected) << suspend_every;
    if (suspend_every == 1) {
      EXPECT_GT(scheduler_->stats().replayed_tokens, 0u);
    }
    EXPECT_TRUE(Idle());
  }
}

TEST_P(AdapterTest, AdaptersOfASuspendedSequenceStayInMemory) {
  Start({.page_tokens = 4, .total_pages = 256},
        {.prefix = {.share = false}, .check_integrity = true});
  Mirror mirror = Create();
  std::weak_ptr<const DeviceAdapter> kept;
  std::weak_ptr<const DeviceAdapter> unused;
  {
    const Loaded first = Load(1, 1);
    kept = first.weights;
    Run(Under(mirror.Append(Text(10)), first)).Token();
    for (uint64_t version = 2; version < 30; ++version) {  // every row is truncated again
      const Loaded other = Load(version, 2);
      unused = other.weights;
      Run(Under(mirror.Append(Text(3)), other)).Token();
      Truncate(mirror, 10);
    }
  }
  EXPECT_TRUE(Idle());
  EXPECT_FALSE(kept.expired());
  scheduler_->Suspend(mirror.id);
  Run(mirror.Append(Text(2))).Token();
  EXPECT_TRUE(Idle());
  scheduler_->Drop(mirror.id);
  EXPECT_TRUE(Idle());
  EXPECT_TRUE(kept.expired());
  EXPECT_TRUE(unused.expired());
}

// Every fork has a list of the adapters of its tokens, so the list is short.
TEST_P(AdapterTest, OneSequenceHasTokensOfFewVersions) {
  Start({.page_tokens = 4, .total_pages = 256}, {.check_integrity = true});
  Mirror mirror = Create();
  uint64_t version = 0;
  while (++version <= limits::kAdaptersPerSequence) {
    EXPECT_NE(Run(Under(mirror.Append({'a'}), Load(version, 1))).Token(), UINT32_MAX) << version;
  }
  const Error refused = Run(Under(mirror.Append({'a'}), Load(version, 1))).Failure();
  EXPECT_NE(refused.text.find("64 versions"), std::string::npos) << refused.text;
  scheduler_->Drop(mirror.id);
  EXPECT_TRUE(Idle());
}

TEST_P(AdapterTest, AChainStaysUnderItsAdapter) {
  Start({.page_tokens = 4, .total_pages = 256});
  const Loaded adapter = Load(1, 1);
  constexpr uint32_t kTokens = 12;
  // One pass at a time.
  Mirror single = Create();
  Tokens expected = {Run(Under(single.Append(Text(6)), adapter)).Token()};
  while (expected.size() < kTokens) {
    expected.push_back(Run(Under(single.Append({expected.back()}), adapter)).Token());
  }
  Mirror chained = Create();
  Forward forward = Under(chained.Append(Text(6)), adapter);
  Tokens given;
  forward.chain = std::make_unique<Chain>();
  forward.chain->max_tokens = kTokens;
  forward.chain->give = [&](uint32_t token, std::optional<Chain::End>) { given.push_back(token); };
  EXPECT_TRUE(Run(std::move(forward)).Get());
  EXPECT_EQ(given, expected);
  Mirror plain = Create();
  EXPECT_NE(Run(plain.Append(Text(6))).Token(), expected[0]);
}

PIE_ON_BOTH_DEVICES(AdapterTest);

}  // namespace
}  // namespace pie
