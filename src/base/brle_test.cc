#include "base/brle.h"

#include <gtest/gtest.h>

#include <random>

namespace pie {
namespace {

using Runs = std::vector<uint32_t>;
using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

Pairs TrueRuns(const Runs& runs, uint32_t limit) {
  Pairs pairs;
  ForEachTrueRun(runs, limit,
                 [&](uint32_t begin, uint32_t end) { pairs.emplace_back(begin, end); });
  return pairs;
}

TEST(Brle, WalksTrueRunsAndClipsThem) {
  EXPECT_EQ(TrueRuns({}, 10), Pairs{});
  EXPECT_EQ(TrueRuns({5}, 10), Pairs{});
  EXPECT_EQ(TrueRuns({0, 4}, 10), (Pairs{{0, 4}}));
  EXPECT_EQ(TrueRuns({2, 3, 1, 4}, 100), (Pairs{{2, 5}, {6, 10}}));
  EXPECT_EQ(TrueRuns({2, 3, 1, 4}, 7), (Pairs{{2, 5}, {6, 7}}));
  EXPECT_EQ(TrueRuns({2, 3, 1, 4}, 6), (Pairs{{2, 5}}));
  EXPECT_EQ(TrueRuns({2, 3}, 0), Pairs{});
  EXPECT_EQ(TrueRuns({0, 0, 0, 0, 3, 2}, 10), (Pairs{{3, 5}}));
}

TEST(Brle, SurvivesRunsThatPassTwoToThe32) {
  const Runs huge = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
  EXPECT_EQ(TrueRuns(huge, 1000), Pairs{});
  EXPECT_EQ(TrueRuns({1, UINT32_MAX, 5, UINT32_MAX}, UINT32_MAX), (Pairs{{1, UINT32_MAX}}));
  EXPECT_FALSE(BrleTest(huge, UINT32_MAX - 1));
  EXPECT_TRUE(BrleTest(huge, UINT32_MAX));
}

TEST(Brle, StopsWhenVisitReturnsFalse) {
  int calls = 0;
  ForEachTrueRun(Runs{0, 1, 1, 1, 1, 1}, 10, [&](uint32_t, uint32_t) { return ++calls < 2; });
  EXPECT_EQ(calls, 2);
}

TEST(Brle, FindsTheFirstTrueBit) {
  EXPECT_EQ(BrleFirst(Runs{7, 2}, 100), 7);
  EXPECT_EQ(BrleFirst(Runs{7, 2}, 7), std::nullopt);
  EXPECT_EQ(BrleFirst(Runs{7, 0, 3}, 100), std::nullopt);
}

TEST(Brle, BuilderMergesAdjacentRuns) {
  BrleBuilder builder;
  builder.AddTrue(0, 2);
  builder.AddTrue(2, 3);
  builder.AddTrue(3, 3);
  builder.AddTrue(5, 6);
  EXPECT_EQ(std::move(builder).Take(), (Runs{0, 3, 2, 1}));
}

TEST(Brle, TheShortestFormHasNoEmptyRuns) {
  EXPECT_EQ(BrleShortest(Runs{}, 10), Runs{});
  EXPECT_EQ(BrleShortest(Runs{0, 4}, 10), (Runs{0, 4}));
  EXPECT_EQ(BrleShortest(Runs{2, 3, 0, 4, 1, 0, 1, 2}, 100), (Runs{2, 7, 2, 2}));
  EXPECT_EQ(BrleShortest(Runs{2, 3, 1, 4}, 7), (Runs{2, 3, 1, 1}));
  // A mask that allows nothing does not become one that restricts nothing.
  EXPECT_EQ(BrleShortest(Runs{5}, 10), Runs{10});
  EXPECT_EQ(BrleShortest(Runs{10, 5}, 10), Runs{10});
  EXPECT_EQ(BrleShortest(Runs(1'000, 0), 10), Runs{10});
  Runs long_form(100'000, 0);
  long_form.insert(long_form.end(), {3, 5});
  EXPECT_EQ(BrleShortest(long_form, 100), (Runs{3, 5}));
}

TEST(Brle, AgreesWithPlainBits) {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const auto make = [&] {
      Runs runs(random() % 8);
      for (uint32_t& run : runs) run = random() % 6;
      return runs;
    };
    const Runs a = make();
    std::vector<bool> walked(64);
    ForEachTrueRun(a, 64, [&](uint32_t begin, uint32_t end) {
      EXPECT_LT(begin, end);
      for (uint32_t i = begin; i < end; ++i) walked[i] = true;
    });
    const Runs shortest = BrleShortest(a, 64);
    for (uint32_t bit = 0; bit < 64; ++bit) {
      EXPECT_EQ(walked[bit], BrleTest(a, bit));
      EXPECT_EQ(walked[bit], BrleTest(shortest, bit));
    }
  }
}

}  // namespace
}  // namespace pie
