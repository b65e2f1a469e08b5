// Tests the masks of matchers, which a thread or the device makes, whichever comes first.
#include "host/matcher_rules.h"

#include <gtest/gtest.h>

#include <future>

#include "base/random.h"
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
    return std::make_shared<MatcherRules>(std::move(matchers), Brle(),
                                          model_.tokenizer->vocab_size(), work, "ada");
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
  // Waits until the thread has done all jobs that were pushed before.
  void WaitForThread() {
    std::promise<void> done;
    ASSERT_TRUE(work_.Push("ada", [&] { done.set_value(); }));
    done.get_future().wait();
  }

  Model model_ = MakeDummyModel("default");
  GrammarVocabulary vocabulary_{model_};
  Grammar grammar_ = *Grammar::FromRegex("((ab|cd)[0-9]{1,3})+;");
  WorkQueue work_{"masks", 1, 64};
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

}  // namespace
}  // namespace pie::host
