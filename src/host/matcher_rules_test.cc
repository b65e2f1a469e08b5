// Tests the masks of matchers, which a thread or the device makes, whichever comes first.
#include "host/matcher_rules.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/random.h"
#include "host/users.h"
#include "speech/dummy_model.h"

namespace pie::host {
namespace {

using Tokens = std::vector<uint32_t>;

class MatcherRulesTest : public ::testing::Test {
 protected:
  // `work` null: there is no thread.
  std::shared_ptr<MatcherRules> Rules(WorkQueue* work) {
    std::vector<MatcherRules::Named> matchers;
    matchers.push_back({*Matcher::Make(vocabulary_, grammar_), "the test's grammar"});
    return std::make_shared<MatcherRules>(
        std::move(matchers), Brle(), model_.tokenizer->vocab_size(),
        MatcherRules::Owner{.user = "ada", .masks = work, .ahead = &ahead_, .lent = lent_});
  }
  static std::vector<Tokens> Masks(MatcherRules& rules, size_t count) {
    std::vector<Tokens> masks;
    for (uint32_t i = 0; i < count; ++i) {
      const auto bits = rules.Bits(i);
      EXPECT_TRUE(bits) << bits.error().text;
      masks.emplace_back(bits->begin(), bits->end());
    }
    return masks;
  }
  // Lets the user spend all time that their grammars may hold up others for.
  void SpendAll() { lent_->Spend(1'000'000'000); }
  static void WorkAhead(MatcherRules& rules, Tokens chosen = {}) {
    std::promise<void> done;
    ASSERT_TRUE(rules.WorkAhead(std::move(chosen), [&] { done.set_value(); }));
    done.get_future().wait();
  }
  // Waits until the thread has done all jobs that were pushed before.
  void WaitForThread() {
    std::promise<void> done;
    ASSERT_TRUE(work_.Push("ada", [&] { done.set_value(); }));
    done.get_future().wait();
  }

  Model model_ = MakeDummyModel("default");
  GrammarVocabulary vocabulary_{model_};
  Grammar grammar_ = *Grammar::FromRegex("((ab|cd)[0-9]{1,3})+;");
  std::shared_ptr<LentTime> lent_ = std::make_shared<LentTime>();
  WorkQueue work_{"masks", 1, 64};
  WorkQueue ahead_{"rules", 1, 64};
};

TEST_F(MatcherRulesTest, AThreadMakesTheSameMasks) {
  const auto plain = Rules(nullptr);
  const auto threaded = Rules(&work_);
  Tokens draft = {'a', 'b', '7', 'x', '7'};
  Tokens same = draft;
  plain->Prepare(draft);
  threaded->Prepare(same);
  EXPECT_EQ(draft, Tokens({'a', 'b', '7'}));  // cut where it does not fit
  EXPECT_EQ(same, draft);
  WaitForThread();
  EXPECT_EQ(Masks(*threaded, 4), Masks(*plain, 4));
}

TEST_F(MatcherRulesTest, ADeviceThatIsFasterMakesThemItself) {
  std::promise<void> go;
  ASSERT_TRUE(work_.Push("ada", [held = go.get_future().share()] { held.wait(); }));
  const auto plain = Rules(nullptr);
  const auto threaded = Rules(&work_);
  Tokens draft = {'c', 'd'};
  plain->Prepare(draft);
  threaded->Prepare(draft);
  const std::vector<Tokens> masks = Masks(*threaded, 3);  // the thread is busy
  EXPECT_EQ(masks, Masks(*plain, 3));
  go.set_value();
  WaitForThread();
  EXPECT_EQ(Masks(*threaded, 3), masks);
}

TEST_F(MatcherRulesTest, MasksOfAnEarlierPassAreForgotten) {
  const auto plain = Rules(nullptr);
  const auto threaded = Rules(&work_);
  const std::string text = "ab12cd3ab4cd567ab8";
  for (size_t i = 0; i < text.size(); ++i) {
    // Several passes are prepared before one asks; the thread may be at any of them.
    for (uint64_t again = 0; again <= Mix(i) % 3; ++again) {
      Tokens draft(
          text.begin() + static_cast<std::ptrdiff_t>(i),
          text.begin() + static_cast<std::ptrdiff_t>(std::min(text.size(), i + Mix(i, again) % 4)));
      Tokens same = draft;
      plain->Prepare(draft);
      threaded->Prepare(same);
      ASSERT_EQ(same, draft);
      if (again == Mix(i) % 3 && i % 5 != 0) {
        ASSERT_EQ(Masks(*threaded, draft.size() + 1), Masks(*plain, draft.size() + 1)) << i;
      }
    }
    const auto token = static_cast<unsigned char>(text[i]);
    EXPECT_TRUE(plain->Accept(token));
    EXPECT_TRUE(threaded->Accept(token));
  }
}

TEST_F(MatcherRulesTest, AQueueThatIsFullLeavesTheMasksToTheDevice) {
  WorkQueue narrow("masks", 1, 1);
  std::promise<void> go;
  const auto held = go.get_future().share();
  while (narrow.Push("ada", [held] { held.wait(); })) {
  }
  const auto rules = Rules(&narrow);
  Tokens none;
  rules->Prepare(none);
  EXPECT_EQ(Masks(*rules, 1)[0]['a' / 32] & (1U << ('a' % 32)), 1U << ('a' % 32));
  go.set_value();
}

TEST_F(MatcherRulesTest, WorkAheadGivesTheSameAnswers) {
  const auto slow = Rules(nullptr);
  SpendAll();
  lent_ = std::make_shared<LentTime>();
  const auto plain = Rules(nullptr);
  ASSERT_TRUE(slow->is_slow() && !plain->is_slow());
  const std::string text = "ab12cd3ab4cd567ab8;";
  size_t forced_tokens = 0;
  for (size_t i = 0; i < text.size();) {
    Tokens none, guesses = {'a', 'b'};
    plain->Prepare(none);
    slow->Prepare(guesses);
    EXPECT_TRUE(guesses.empty());  // checking them would take long
    WorkAhead(*slow);
    EXPECT_EQ(Masks(*slow, 1), Masks(*plain, 1)) << i;
    const auto token = static_cast<uint8_t>(text[i]);
    WorkAhead(*slow, {token});
    EXPECT_EQ(slow->Accept(token).value(), plain->Accept(token).value());
    if (++i == text.size()) break;
    const Tokens forced = plain->Forced(8);
    EXPECT_EQ(slow->Forced(8), forced) << i;
    forced_tokens += forced.size();
    if (Mix(i) % 2 == 0) continue;  // as if the chain had no room for them
    for (const uint32_t next : forced) {
      EXPECT_EQ(next, static_cast<uint8_t>(text[i++]));
      EXPECT_EQ(slow->Accept(next).value(), plain->Accept(next).value());
    }
  }
  EXPECT_GT(forced_tokens, 2U);
}

TEST_F(MatcherRulesTest, TheTokenThatWasWorkedOnNeedNotCome) {
  const auto plain = Rules(nullptr);
  const auto slow = Rules(nullptr);
  WorkAhead(*slow, {'a'});  // and the b that is forced behind it
  EXPECT_TRUE(slow->Accept('c'));
  EXPECT_TRUE(plain->Accept('c'));
  EXPECT_EQ(slow->Forced(8), Tokens({'d'}));
  WorkAhead(*slow, {'x'});
  EXPECT_FALSE(slow->Accept('x'));
  Tokens none;
  slow->Prepare(none);
  plain->Prepare(none);
  EXPECT_EQ(Masks(*slow, 1), Masks(*plain, 1));
}

TEST_F(MatcherRulesTest, ADeviceDoesNotWaitForTheMasksOfAUserWhoHasSpentTheirTime) {
  const auto rules = Rules(nullptr);
  Tokens none;
  rules->Prepare(none);
  SpendAll();
  EXPECT_FALSE(rules->Bits(0));
  EXPECT_FALSE(rules->Bits(0));
  EXPECT_TRUE(rules->WasLate());
  EXPECT_FALSE(rules->WasLate());
  WorkAhead(*rules);
  EXPECT_TRUE(rules->Bits(0));
}

TEST_F(MatcherRulesTest, APassHearsOfAnEndEvenIfItsJobIsDropped) {
  const auto rules = Rules(nullptr);
  std::promise<void> go, dropped;
  ASSERT_TRUE(ahead_.Push("ada", [held = go.get_future().share()] { held.wait(); }));
  ASSERT_TRUE(rules->WorkAhead({}, [&] { dropped.set_value(); }));
  std::thread stop([&] { ahead_.Stop(); });
  go.set_value();
  dropped.get_future().wait();
  stop.join();
}

TEST_F(MatcherRulesTest, TheTextOfAChainIsCharged) {
  std::vector<MatcherRules::Named> matchers;
  const Grammar any = *Grammar::FromRegex("(.|\n)*");
  matchers.push_back({*Matcher::Make(vocabulary_, any), "the test's grammar"});
  const auto budget = std::make_shared<ByteBudget>(256 << 10);
  auto rules =
      std::make_shared<MatcherRules>(std::move(matchers), Brle(), model_.tokenizer->vocab_size(),
                                     MatcherRules::Owner{.user = "ada", .charge = Charge(budget)});
  Result<bool> accepted = false;
  for (int i = 0; i < 1'000'000 && accepted; ++i) accepted = rules->Accept('a');
  ASSERT_FALSE(accepted);
  EXPECT_NE(accepted.error().text.find("memory limit"), std::string::npos) << accepted.error().text;
  EXPECT_GT(budget->used(), 0U);
  rules.reset();
  EXPECT_EQ(budget->used(), 0U);
}

TEST(LentTimeTest, IsPaidBackSlowly) {
  ManualClock clock;
  clock.AdvanceNs(1'000'000'000);
  LentTime lent(clock);
  for (int i = 0; i < 1'000'000; ++i) lent.Spend(LentTime::kFreeNs);
  EXPECT_FALSE(lent.is_spent());
  lent.Spend(LentTime::kMostNs);
  EXPECT_FALSE(lent.is_spent());
  lent.Spend(50'000'000);
  EXPECT_TRUE(lent.is_spent());
  clock.AdvanceNs(49 * LentTime::kRefill * 1'000'000LL);
  EXPECT_TRUE(lent.is_spent());
  clock.AdvanceNs(LentTime::kRefill * 1'000'000LL);
  EXPECT_FALSE(lent.is_spent());
  EXPECT_FALSE(lent.is_full());
  clock.AdvanceNs(LentTime::kMostNs * LentTime::kRefill);
  EXPECT_TRUE(lent.is_full());
}

TEST(LentTimeTest, AUserWhoComesBackStillOwesIt) {
  Users users{Limits()};
  users.Of("mallory")->lent->Spend(1'000'000'000);
  EXPECT_TRUE(users.Of("mallory")->lent->is_spent());
  EXPECT_FALSE(users.Of("ada")->lent->is_spent());
}

}  // namespace
}  // namespace pie::host
