// A draft model beside a large one: it changes the time that a chain takes, and nothing else.
#include "sched/model_drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <mutex>

#include "sched/testing.h"

namespace pie {
namespace {

using testing::Outcome;
using Tokens = std::vector<uint32_t>;

// The large model takes its time, so that the draft model can be ahead.
const DummyOptions kLarge = {.seed = 5, .page_tokens = 4, .latency_us = 1'000};
const DummyOptions kSame = {.seed = 5, .page_tokens = 4};
const DummyOptions kOther = {.seed = 6, .page_tokens = 4};

struct Case {
  SampleSpec::Kind kind = SampleSpec::Kind::kTopK;
  float temperature = 0;
  uint32_t max_tokens = 60;
  Tokens stops = {};
};

class ModelDrafterTest : public ::testing::TestWithParam<testing::Device> {
 protected:
  void Start(const DummyOptions& draft, SchedulerOptions options = {.check_integrity = true},
             const DummyOptions& large = kLarge) {
    gate_ = std::make_shared<testing::Gate>();
    draft_gate_ = std::make_shared<testing::Gate>();
    large_ = std::make_unique<Scheduler>(testing::MakeDevice(GetParam(), large, gate_), options);
    draft_ =
        std::make_unique<Scheduler>(std::make_unique<testing::GatedBackend>(draft, draft_gate_),
                                    SchedulerOptions{.check_integrity = true});
  }
  // Runs a chain after a prompt, then another on the same sequence.
  Tokens Run(const Case& set, bool drafted) {
    Tokens text;
    const SequenceId sequence = large_->Create();
    Tokens input = {'h', 'e', 'l', 'l', 'o'};
    uint32_t fed = 0;
    for (int chain = 0; chain < 2; ++chain) {
      const Tokens given = RunChain(set, drafted, sequence, fed, input);
      text.insert(text.end(), given.begin(), given.end());
      fed += static_cast<uint32_t>(input.size() + given.size()) - 1;
      input = {given.back(), '!'};
    }
    large_->Drop(sequence);
    EXPECT_TRUE(large_->WaitIdle(20'000));
    EXPECT_TRUE(draft_->WaitIdle(20'000));
    EXPECT_EQ(draft_->stats().sequences, 0U);
    return text;
  }
  Tokens RunChain(const Case& set, bool drafted, SequenceId sequence, uint32_t fed,
                  const Tokens& input) {
    const auto given = std::make_shared<Given>();
    const Outcome outcome = Begin(set, drafted, sequence, fed, input, given);
    const auto result = outcome.Get();
    EXPECT_TRUE(result && *result) << (result ? result->error().text : "vanished");
    const std::lock_guard lock(given->first);
    return given->second;
  }
  // The tokens that a chain has given so far.
  using Given = std::pair<std::mutex, Tokens>;
  Outcome Begin(const Case& set, bool drafted, SequenceId sequence, uint32_t fed,
                const Tokens& input, const std::shared_ptr<Given>& given) {
    Forward forward;
    forward.sequence = sequence;
    forward.tokens = input;
    for (uint32_t i = 0; i < input.size(); ++i) forward.positions.push_back(fed + i);
    forward.samples = {{.kind = set.kind,
                        .temperature = set.temperature,
                        .k = 20,
                        .p = 0.9F,
                        .rows = {static_cast<uint32_t>(input.size()) - 1}}};
    forward.seed = 70;
    forward.chain = std::make_unique<Chain>();
    forward.chain->max_tokens = set.max_tokens;
    forward.chain->stops = set.stops;
    forward.chain->seed = [](uint32_t step) { return 70 + step; };
    forward.chain->give = [given](uint32_t token, std::optional<Chain::End>) {
      const std::lock_guard lock(given->first);
      given->second.push_back(token);
    };
    forward.chain->speculate = drafted;
    if (drafted) forward.chain->draft_model = {.scheduler = draft_.get(), .salt = {}};
    Outcome outcome;
    forward.done = outcome.Callback();
    large_->Execute(std::move(forward));
    return outcome;
  }
  double ConfirmedShare() const {
    const SchedulerStats stats = large_->stats();
    return static_cast<double>(stats.confirmed) /
           static_cast<double>(std::max<uint64_t>(stats.drafted, 1));
  }

  std::shared_ptr<testing::Gate> gate_, draft_gate_;
  std::unique_ptr<Scheduler> draft_, large_;  // the large one is destroyed first
};

TEST_P(ModelDrafterTest, ChangesNoTokenWhateverTheSampler) {
  using Kind = SampleSpec::Kind;
  for (const DummyOptions& draft : {kSame, kOther}) {
    Start(draft);
    for (const Kind kind :
         {Kind::kMultinomial, Kind::kTopK, Kind::kTopP, Kind::kMinP, Kind::kTopKTopP}) {
      for (const float temperature : {0.0F, 1.5F}) {
        const Case set{.kind = kind, .temperature = temperature};
        EXPECT_EQ(Run(set, true), Run(set, false));
      }
    }
    EXPECT_GT(large_->stats().drafted, 0U);
  }
}

TEST_P(ModelDrafterTest, TheSameModelGuessesWithTheSameSeeds) {
  Start(kSame);
  for (const float temperature : {0.0F, 1.5F}) {
    const Case set{.kind = SampleSpec::Kind::kTopP, .temperature = temperature};
    Run(set, true);
  }
  // How many guesses come in time depends on the machine; those that do are right.
  EXPECT_EQ(ConfirmedShare(), 1.0);
}

TEST_P(ModelDrafterTest, GuessesEndBeforeATokenThatTheLargeModelDoesNotHave) {
  Start(kSame);
  const StepTime time{};
  const auto guesses = [&](uint32_t vocab_size) {
    std::promise<void> ready;
    const DraftModel model{.scheduler = draft_.get(), .salt = {}};
    const SampleSpec sampler{.kind = SampleSpec::Kind::kMultinomial, .temperature = 1.5F};
    ModelDrafter drafter(
        {'h', 'e', 'y'}, model, sampler, [](uint32_t step) { return 70 + step; }, 0, vocab_size,
        time, [&ready] { ready.set_value(); });
    EXPECT_FALSE(drafter.Draft(8).has_value());
    ready.get_future().wait();
    return drafter.Draft(8).value_or(Tokens());
  };
  const Tokens all = guesses(UINT32_MAX);
  ASSERT_GT(all.size(), 1U);
  const auto largest = std::ranges::max_element(all);
  EXPECT_EQ(guesses(*largest + 1), all);
  EXPECT_EQ(guesses(*largest), Tokens(all.begin(), largest));
}

TEST_P(ModelDrafterTest, OnePassVerifiesManyTokens) {
  // The large model is so slow that its chain waits for the guesses even on a busy machine.
  DummyOptions slow = kLarge;
  slow.latency_us = 20'000;
  Start(kSame, {.check_integrity = true}, slow);
  const Case set{.max_tokens = 120};
  EXPECT_EQ(RunChain(set, true, large_->Create(), 0, {'h', 'e', 'y'}).size(), 120U);
  EXPECT_TRUE(large_->WaitIdle(20'000));
  // A pass verifies eight guesses and chooses a token of its own. The first ones have fewer,
  // because the drafter has yet to learn that it is right.
  EXPECT_LE(large_->stats().steps, 120U / 9 + 6);
  EXPECT_EQ(ConfirmedShare(), 1.0);
}

TEST_P(ModelDrafterTest, ADraftModelThatIsAsSlowGoesOff) {
  DummyOptions slow = kLarge;
  slow.latency_us = 5'000;
  Start(slow, {.check_integrity = true}, slow);
  RunChain({.max_tokens = 100}, true, large_->Create(), 0, {'h', 'e', 'y'});
  EXPECT_TRUE(large_->WaitIdle(20'000));
  EXPECT_GT(large_->stats().steps, 80U) << "a guess that takes as long as a pass does not pay";
}

TEST_P(ModelDrafterTest, AHangingDraftModelDelaysNobody) {
  Start(kSame);
  draft_gate_->Hold();
  const auto drafted = std::make_shared<Given>();
  const Outcome outcome = Begin({}, true, large_->Create(), 0, {'a', 'b'}, drafted);
  EXPECT_EQ(RunChain({}, false, large_->Create(), 0, {'c', 'd'}).size(), 60U);
  EXPECT_TRUE(outcome.Get()) << "the chain goes on without drafts";
  EXPECT_EQ(drafted->second.size(), 60U);
  EXPECT_EQ(large_->stats().drafted, 0U);
  draft_gate_->Open();
}

TEST_P(ModelDrafterTest, OperationsEndAChainThatWaitsForDrafts) {
  DummyOptions slow = kLarge;
  slow.latency_us = 100'000;  // it waits for drafts for two passes
  for (const int operation : {0, 1, 2}) {
    Start(kSame, {.check_integrity = true}, slow);
    draft_gate_->Hold();
    const SequenceId sequence = large_->Create();
    const auto given = std::make_shared<Given>();
    const Outcome outcome = Begin({}, true, sequence, 0, {'a', 'b'}, given);
    EXPECT_TRUE(draft_gate_->WaitBusy());
    if (operation == 0) large_->Truncate(sequence, 1);
    if (operation == 1) large_->Drop(sequence);
    if (operation == 2) large_->Drop(large_->Fork(sequence));
    EXPECT_EQ(outcome.Vanished(), operation == 1);
    EXPECT_EQ(given->second.size(), 1U);
    draft_gate_->Open();
    EXPECT_TRUE(large_->WaitIdle(20'000));
    EXPECT_TRUE(draft_->WaitIdle(20'000));
  }
}

TEST_P(ModelDrafterTest, GoesOffWhereItIsWrong) {
  Start(kOther);
  Run({.max_tokens = 200}, true);
  EXPECT_LT(large_->stats().drafted, 60U) << "of 400 passes";
  EXPECT_GT(large_->stats().drafted, 0U);
}

TEST_P(ModelDrafterTest, EndsWithTheChain) {
  Start(kSame);
  const Tokens plain = Run({}, false);
  for (const size_t place : {3U, 9U, 20U}) {
    const Case stopped{.stops = {plain[place]}};
    EXPECT_EQ(Run(stopped, true), Run(stopped, false));
  }
  for (const uint32_t most : {1U, 2U, 5U}) {
    EXPECT_EQ(Run({.max_tokens = most}, true), Run({.max_tokens = most}, false));
  }
}

TEST_P(ModelDrafterTest, SuspensionOfTheLargeModelsSequence) {
  Start(kSame, {.check_integrity = true, .suspend_every_steps = 3});
  const Case set{.kind = SampleSpec::Kind::kMultinomial, .temperature = 1};
  EXPECT_EQ(Run(set, true), Run(set, false));
}

TEST_P(ModelDrafterTest, ADraftModelThatFailsOrIsTooShortIsLeftAlone) {
  DummyOptions failing = kSame;
  failing.fail_every = 3;
  DummyOptions narrow = kSame;
  narrow.max_positions = 40;
  for (const DummyOptions& draft : {failing, narrow}) {
    Start(draft);
    EXPECT_EQ(Run({}, true), Run({}, false));
  }
}

PIE_ON_BOTH_DEVICES(ModelDrafterTest);

}  // namespace
}  // namespace pie
