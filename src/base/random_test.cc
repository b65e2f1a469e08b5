#include "base/random.h"

#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "base/clock.h"
#include "base/result.h"

namespace pie {
namespace {

TEST(Random, IsAPureFunctionOfSeedAndCounter) {
  const CounterRng a{1};
  const CounterRng b{2};
  EXPECT_EQ(a.Double(5), CounterRng{1}.Double(5));
  EXPECT_NE(a.Bits(5), a.Bits(6));
  EXPECT_NE(a.Bits(5), b.Bits(5));
  EXPECT_NE(Mix(1, 2), Mix(2, 1));
  EXPECT_NE(Mix(1, 2, 3), Mix(1, 2));
}

TEST(Random, IsUniform) {
  const CounterRng rng{42};
  constexpr int kDraws = 100'000;
  int buckets[20] = {};
  for (int i = 0; i < kDraws; ++i) {
    const float f = rng.Float(static_cast<uint64_t>(i));
    ASSERT_GE(f, 0.0F);
    ASSERT_LT(f, 1.0F);
    ++buckets[static_cast<int>(f * 20)];
  }
  double chi2 = 0;
  for (int count : buckets) chi2 += (count - 5000.0) * (count - 5000.0) / 5000.0;
  EXPECT_LT(chi2, 43.8);  // 19 degrees of freedom, p = 0.001
}

TEST(Random, NeighbouringSeedsShareNothing) {
  // A generator's step i uses seed + i, always with counter 0.
  std::set<uint64_t> seen;
  int flipped = 0;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    EXPECT_TRUE(seen.insert(CounterRng{seed}.Bits(0)).second);
    flipped += std::popcount(CounterRng{seed}.Bits(0) ^ CounterRng{seed + 1}.Bits(0));
  }
  EXPECT_NEAR(flipped / 1000.0, 32, 1);
}

TEST(Clock, ManualClockMovesOnlyWhenTold) {
  ManualClock clock;
  EXPECT_EQ(clock.NowNs(), 0);
  clock.AdvanceNs(5);
  EXPECT_EQ(clock.NowNs(), 5);
  const int64_t before = SteadyClock::Get().NowNs();
  EXPECT_GE(SteadyClock::Get().NowNs(), before);
}

Result<int> Half(int n) {
  if (n % 2 != 0) return Fail(Code::kInvalid, "{} is odd", n);
  return n / 2;
}
Result<int> Quarter(int n) {
  return PIE_TRY(Half(PIE_TRY(Half(n))));
}

TEST(Result, TryPassesTheFirstErrorOn) {
  EXPECT_EQ(*Quarter(8), 2);
  EXPECT_EQ(Quarter(6).error().text, "3 is odd");
  EXPECT_EQ(Quarter(7).error().code, Code::kInvalid);
}

}  // namespace
}  // namespace pie
