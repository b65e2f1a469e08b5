// Chains with rules and drafts: the tokens are those that passes one by one would choose, and the
// sequence is intact afterwards.
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "base/random.h"
#include "sched/chain.h"
#include "sched/drafter.h"
#include "sched/testing.h"
#include "sched/token_rules.h"

namespace pie {
namespace {

using testing::Mirror;
using testing::Outcome;
using Tokens = std::vector<uint32_t>;

// Words of lower-case letters. A word that begins with one of `forced`'s letters is written out,
// and the text is complete after `words` of them.
class Words final : public TokenRules, public TokenMasks {
 public:
  Words(uint32_t words, bool jump) : words_(words), jump_(jump) {}

  Result<bool> Accept(uint32_t token) override {
    if (!Allowed(token)) return Fail(Code::kInvalid, "token {} is not allowed", token);
    rest_ = rest_.empty() ? WordOf(token) : Tokens(rest_.begin() + 1, rest_.end());
    if (rest_.empty()) --words_;
    return words_ == 0;
  }
  Tokens Forced(uint32_t most) override {
    if (!jump_ || rest_.empty()) return {};
    Tokens forced = rest_;
    if (words_ == 1) forced.pop_back();  // the text would be complete
    forced.resize(std::min<size_t>(forced.size(), most));
    return forced;
  }
  void Prepare(Tokens& draft) override {
    Words ahead = *this;
    masks_.clear();
    masks_.push_back(ahead.Mask());
    for (size_t i = 0; i < draft.size(); ++i) {
      if (!ahead.Allowed(draft[i]) || ahead.Accept(draft[i]).value()) {
        draft.resize(i);
        return;
      }
      masks_.push_back(ahead.Mask());
    }
  }
  TokenMasks& masks() override { return *this; }
  Result<std::span<const uint32_t>> Bits(uint32_t index) override { return masks_.at(index); }

  // A letter and the alphabet behind it, up to four letters.
  static Tokens WordOf(uint32_t first) {
    Tokens word;
    for (uint32_t letter = first + 1; letter % 5 != 0 && letter <= 'z'; ++letter) {
      word.push_back(letter);
    }
    return word;
  }

 private:
  bool Allowed(uint32_t token) const {
    return rest_.empty() ? token >= 'a' && token <= 'z' : token == rest_.front();
  }
  Tokens Mask() const {
    Tokens bits(10, 0);
    for (uint32_t token = 0; token < 256; ++token) {
      if (Allowed(token)) bits[token / 32] |= 1U << (token % 32);
    }
    return bits;
  }

  uint32_t words_;
  bool jump_;
  Tokens rest_;
  std::vector<Tokens> masks_;
};

// The jobs of slow rules, for the test to release.
struct Held {
  std::mutex mutex;
  std::vector<std::move_only_function<void()>> jobs;

  size_t Count() {
    const std::lock_guard lock(mutex);
    return jobs.size();
  }
  void Release() {
    std::vector<std::move_only_function<void()>> released;
    {
      const std::lock_guard lock(mutex);
      released.swap(jobs);
    }
    for (auto& job : released) job();
  }
};

// Makes other rules slow. They work ahead on a thread or when the test says so (`held`), or every
// batch has to do without its masks once (`late`).
class Slow final : public TokenRules, public TokenMasks {
 public:
  Slow(std::shared_ptr<TokenRules> rules, bool late, std::shared_ptr<Held> held)
      : rules_(std::move(rules)), late_(late), held_(std::move(held)) {}

  Result<bool> Accept(uint32_t token) override { return rules_->Accept(token); }
  Tokens Forced(uint32_t most) override { return rules_->Forced(most); }
  void Prepare(Tokens& draft) override {
    rules_->Prepare(draft);
    misses_ = true;
  }
  TokenMasks& masks() override { return *this; }
  Result<std::span<const uint32_t>> Bits(uint32_t index) override {
    if (!late_ || !misses_) return rules_->masks().Bits(index);
    was_late_ = true;
    return Fail(Code::kExhausted, "late");
  }
  bool is_slow() const override { return !late_; }
  Status WorkAhead(Tokens chosen, std::move_only_function<void()> ready) override {
    EXPECT_LE(chosen.size(), 1U);
    if (held_) {
      const std::lock_guard lock(held_->mutex);
      held_->jobs.push_back(std::move(ready));
    } else {
      threads_.emplace_back(std::move(ready));
    }
    return {};
  }
  bool WasLate() override {
    if (was_late_) misses_ = false;
    return std::exchange(was_late_, false);
  }

 private:
  std::shared_ptr<TokenRules> rules_;
  const bool late_;
  std::shared_ptr<Held> held_;
  bool misses_ = true;  // its next batch
  bool was_late_ = false;
  std::vector<std::jthread> threads_;
};

// Drafts the tokens that come next, and now and then a wrong one.
class Guesser final : public Drafter {
 public:
  struct Counts {
    uint32_t drafted = 0;
    uint32_t chosen = 0;
  };
  Guesser(Tokens future, uint32_t right_of_eight, std::shared_ptr<Counts> counts)
      : future_(std::move(future)), right_of_eight_(right_of_eight), counts_(std::move(counts)) {}
  void Add(uint32_t token) override {
    EXPECT_EQ(token, future_.at(at_)) << at_;
    ++at_;
  }
  void Judge(uint32_t drafted, uint32_t chosen) override {
    counts_->drafted += drafted;
    counts_->chosen += chosen;
  }
  std::optional<Tokens> Draft(uint32_t most) override {
    Tokens draft;
    for (size_t i = at_; i < future_.size() && draft.size() < std::min(most, 5U); ++i) {
      const bool right = Mix(at_, i) % 8 < right_of_eight_;
      draft.push_back(right ? future_[i] : 'q');
    }
    return draft;
  }

 private:
  Tokens future_;
  uint32_t right_of_eight_;
  std::shared_ptr<Counts> counts_;
  size_t at_ = 0;
};

struct Given {
  std::mutex mutex;
  Tokens tokens;
  std::optional<Chain::End> end;
};

struct Case {
  uint32_t max_tokens = 40;
  uint32_t words = 0;  // 0: no rules
  bool jump = false;
  bool slow = false, late = false;  // as `Slow`
  std::shared_ptr<Held> held = {};
  std::optional<uint32_t> right_of_eight;  // none: no drafts
  Tokens future = {};
  Tokens stops = {};
  SampleSpec::Kind kind = SampleSpec::Kind::kMultinomial;
  float temperature = 1;
  std::shared_ptr<Guesser::Counts> counts = std::make_shared<Guesser::Counts>();
};

class ChainRulesTest : public testing::SchedulerFixture {
 protected:
  struct Run {
    Tokens tokens;
    std::optional<Chain::End> end;
    size_t batches;
  };
  static constexpr uint64_t kSeed = 77;

  Run RunChain(Mirror& mirror, const Case& set) {
    const auto given = std::make_shared<Given>();
    Forward forward = mirror.Append({'h', 'e', 'y'});
    forward.samples[0].kind = set.kind;
    forward.samples[0].temperature = set.temperature;
    forward.samples[0].p = 0.9F;
    forward.samples[0].k = 20;
    forward.seed = kSeed;
    forward.chain = std::make_unique<Chain>();
    forward.chain->max_tokens = set.max_tokens;
    forward.chain->stops = set.stops;
    forward.chain->seed = [](uint32_t step) { return kSeed + step; };
    forward.chain->give = [given](uint32_t token, std::optional<Chain::End> end) {
      const std::lock_guard lock(given->mutex);
      EXPECT_FALSE(given->end);
      given->tokens.push_back(token);
      given->end = end;
    };
    if (set.words > 0) {
      forward.rules = std::make_shared<Words>(set.words, set.jump);
      Tokens none;
      forward.rules->Prepare(none);
      if (set.slow || set.late) {
        forward.rules = std::make_shared<Slow>(std::move(forward.rules), set.late, set.held);
      }
    }
    if (set.right_of_eight) {
      forward.chain->drafter =
          std::make_unique<Guesser>(set.future, *set.right_of_eight, set.counts);
    }
    const size_t before = gate_->batches().size();
    const auto result = SchedulerFixture::Run(std::move(forward)).Get();
    EXPECT_TRUE(result && *result) << (result ? result->error().text : "vanished");
    EXPECT_TRUE(scheduler_->WaitIdle(20'000));
    const size_t batches = gate_->batches().size() - before;
    for (size_t i = 0; i + 1 < given->tokens.size(); ++i) mirror.Append({given->tokens[i]});
    return {given->tokens, given->end, batches};
  }
  void ExpectWhole(Mirror& mirror) {
    const uint32_t token = SchedulerFixture::Run(mirror.Append({'!'})).Token();
    EXPECT_EQ(token, mirror.Greedy(device_));
  }
  // Runs the chain on a new sequence and checks the sequence after it.
  Run RunWhole(const Case& set) {
    Mirror mirror = Create();
    const Run run = RunChain(mirror, set);
    ExpectWhole(mirror);
    return run;
  }
};

TEST_P(ChainRulesTest, ForcedTokensAreFedWithoutAPassOfTheirOwn) {
  Start({.seed = 5, .page_tokens = 4});
  const Run plain = RunWhole({.max_tokens = 100, .words = 8});
  EXPECT_EQ(plain.end, Chain::End::kComplete);
  EXPECT_EQ(plain.batches, plain.tokens.size());
  const Run jumped = RunWhole({.max_tokens = 100, .words = 8, .jump = true});
  EXPECT_EQ(jumped.tokens, plain.tokens);
  EXPECT_EQ(jumped.end, Chain::End::kComplete);
  EXPECT_LT(jumped.batches, plain.batches);
}

TEST_P(ChainRulesTest, ForcedTokensStayWithinTheLimitAndBeforeAStop) {
  Start({.seed = 5, .page_tokens = 4});
  const Run plain = RunWhole({.max_tokens = 100, .words = 8});
  for (uint32_t most = 1; most < plain.tokens.size(); ++most) {
    const Run cut = RunWhole({.max_tokens = most, .words = 8, .jump = true});
    EXPECT_EQ(cut.tokens, Tokens(plain.tokens.begin(), plain.tokens.begin() + most));
    EXPECT_EQ(cut.end, Chain::End::kLimit);
  }
  for (const uint32_t stop : std::set(plain.tokens.begin(), plain.tokens.end())) {
    const Run stepped = RunWhole({.max_tokens = 100, .words = 8, .stops = {stop}});
    const Run stopped = RunWhole({.max_tokens = 100, .words = 8, .jump = true, .stops = {stop}});
    EXPECT_EQ(stopped.tokens, stepped.tokens);
    EXPECT_EQ(stopped.tokens.back(), stop);
  }
}

TEST_P(ChainRulesTest, DraftsChangeNoTokenWhateverTheSampler) {
  using Kind = SampleSpec::Kind;
  Start({.seed = 5, .page_tokens = 4});
  for (const Kind kind :
       {Kind::kMultinomial, Kind::kTopK, Kind::kTopP, Kind::kMinP, Kind::kTopKTopP}) {
    for (const float temperature : {0.0F, 1.0F}) {
      const Run plain = RunWhole({.kind = kind, .temperature = temperature});
      ASSERT_EQ(plain.tokens.size(), 40U);
      for (const uint32_t right : {0U, 4U, 7U, 8U}) {
        Case set{.right_of_eight = right,
                 .future = plain.tokens,
                 .kind = kind,
                 .temperature = temperature};
        const Run drafted = RunWhole(set);
        EXPECT_EQ(drafted.tokens, plain.tokens) << right;
        EXPECT_EQ(drafted.end, plain.end);
        EXPECT_EQ(drafted.batches, plain.batches - set.counts->chosen);
        EXPECT_GT(set.counts->drafted, 20U);
        if (right == 8) {
          EXPECT_EQ(set.counts->drafted, set.counts->chosen);
        }
      }
    }
  }
}

TEST_P(ChainRulesTest, DraftsEndWhereTheChainEnds) {
  Start({.seed = 5, .page_tokens = 4});
  const Run plain = RunWhole({});
  for (const uint32_t stop : std::set(plain.tokens.begin(), plain.tokens.end())) {
    const Run stepped = RunWhole({.stops = {stop}});
    const Run drafted = RunWhole({.right_of_eight = 8, .future = plain.tokens, .stops = {stop}});
    EXPECT_EQ(drafted.tokens, stepped.tokens);
    EXPECT_EQ(drafted.end, Chain::End::kStop);
  }
  for (uint32_t most = 1; most < 12; ++most) {
    const Run drafted = RunWhole({.max_tokens = most, .right_of_eight = 8, .future = plain.tokens});
    EXPECT_EQ(drafted.tokens, Tokens(plain.tokens.begin(), plain.tokens.begin() + most));
  }
}

TEST_P(ChainRulesTest, DraftsRulesAndForcedTokensTogether) {
  Start({.seed = 6, .page_tokens = 4});
  const Run plain = RunWhole({.max_tokens = 100, .words = 12});
  for (const bool jump : {false, true}) {
    for (const uint32_t right : {0U, 5U, 8U}) {
      const Run drafted = RunWhole({.max_tokens = 100,
                                    .words = 12,
                                    .jump = jump,
                                    .right_of_eight = right,
                                    .future = plain.tokens});
      EXPECT_EQ(drafted.tokens, plain.tokens);
      EXPECT_EQ(drafted.end, Chain::End::kComplete);
    }
  }
}

TEST_P(ChainRulesTest, SuspendedBetweenItsPasses) {
  Start({.seed = 6, .page_tokens = 4}, {.check_integrity = true, .suspend_every_steps = 2});
  const Run plain = RunWhole({.max_tokens = 60, .words = 40});
  const Run drafted = RunWhole(
      {.max_tokens = 60, .words = 40, .jump = true, .right_of_eight = 6, .future = plain.tokens});
  EXPECT_EQ(drafted.tokens, plain.tokens);
}

TEST_P(ChainRulesTest, SmallBatchesCutTheDrafts) {
  Start({.seed = 6, .page_tokens = 4, .max_batch_tokens = 3});
  const Run plain = RunWhole({});
  for (const uint32_t right : {4U, 7U}) {
    const Run drafted = RunWhole({.right_of_eight = right, .future = plain.tokens});
    EXPECT_EQ(drafted.tokens, plain.tokens);
  }
}

TEST_P(ChainRulesTest, RulesThatWorkAheadGiveTheSameTokens) {
  Start({.seed = 6, .page_tokens = 4});
  const Run plain = RunWhole({.max_tokens = 100, .words = 12});
  for (const bool jump : {false, true}) {
    const Run slow = RunWhole({.max_tokens = 100, .words = 12, .jump = jump, .slow = true});
    EXPECT_EQ(slow.tokens, plain.tokens);
    EXPECT_EQ(slow.end, Chain::End::kComplete);
  }
}

TEST_P(ChainRulesTest, APassWhoseMaskIsLateRunsAgain) {
  Start({.seed = 6, .page_tokens = 4});
  const Run plain = RunWhole({.max_tokens = 100, .words = 12});
  const Run late = RunWhole({.max_tokens = 100, .words = 12, .late = true});
  EXPECT_EQ(late.tokens, plain.tokens);
  EXPECT_EQ(late.end, Chain::End::kComplete);
  EXPECT_EQ(late.batches, 2 * plain.batches);
  const Run drafted = RunWhole({.max_tokens = 100,
                                .words = 12,
                                .jump = true,
                                .late = true,
                                .right_of_eight = 6,
                                .future = plain.tokens});
  EXPECT_EQ(drafted.tokens, plain.tokens);
}

TEST_P(ChainRulesTest, SlowRulesAreSuspendedBetweenTheirPasses) {
  Start({.seed = 6, .page_tokens = 4}, {.check_integrity = true, .suspend_every_steps = 2});
  const Run plain = RunWhole({.max_tokens = 60, .words = 40});
  for (const bool late : {false, true}) {
    const Run slow =
        RunWhole({.max_tokens = 60, .words = 40, .jump = true, .slow = !late, .late = late});
    EXPECT_EQ(slow.tokens, plain.tokens);
  }
}

TEST_P(ChainRulesTest, SlowRulesHoldUpNobody) {
  Start({.seed = 5, .page_tokens = 4});
  const auto held = std::make_shared<Held>();
  Run run;
  Mirror mirror = Create();
  std::thread chain(
      [&] { run = RunChain(mirror, {.max_tokens = 6, .words = 8, .slow = true, .held = held}); });
  // Before each of its passes and behind each, the chain waits; its neighbour does not.
  Mirror other = Create();
  for (uint32_t waits = 0; waits < 12; ++waits) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (held->Count() == 0 && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    ASSERT_EQ(held->Count(), 1U) << waits;
    ExpectAppend(other, {'x'});
    held->Release();
  }
  chain.join();
  EXPECT_EQ(run.tokens.size(), 6U);
  ExpectWhole(mirror);
}

TEST_P(ChainRulesTest, ASequenceThatWaitsForSlowRulesCanBeDropped) {
  Start({.seed = 5, .page_tokens = 4});
  for (const size_t waits : {0, 1, 2}) {
    const auto held = std::make_shared<Held>();
    Mirror mirror = Create();
    Forward forward = mirror.Append({'h'});
    forward.chain = std::make_unique<Chain>();
    forward.chain->max_tokens = 10;
    forward.chain->give = [](uint32_t, std::optional<Chain::End>) {};
    auto words = std::make_shared<Words>(8, false);
    Tokens none;
    words->Prepare(none);
    forward.rules = std::make_shared<Slow>(std::move(words), false, held);
    const Outcome outcome = SchedulerFixture::Run(std::move(forward));
    for (size_t i = 0; i <= waits; ++i) {
      while (held->Count() == 0) std::this_thread::yield();
      if (i < waits) held->Release();
    }
    scheduler_->Drop(mirror.id);
    EXPECT_TRUE(outcome.Vanished()) << waits;
    held->Release();
    EXPECT_TRUE(Idle());
    EXPECT_EQ(scheduler_->stats().sequences, 0U);
  }
}

PIE_ON_BOTH_DEVICES(ChainRulesTest);

}  // namespace
}  // namespace pie
