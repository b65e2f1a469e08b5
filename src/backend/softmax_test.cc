#include "backend/softmax.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace pie {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> RandomLogits(size_t count, float spread, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

TEST(Softmax, ExpIsExp) {
  for (float x = -86.9F; x < 80; x += 0.0173F) {
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_NEAR(ExpOf(x) / exact, 1, 3e-7) << x;
  }
  EXPECT_EQ(ExpOf(0), 1);
  EXPECT_EQ(ExpOf(-88), 0);
  EXPECT_EQ(ExpOf(-kInf), 0);
  EXPECT_EQ(ExpOf(std::nanf("")), 0);
}

TEST(Softmax, WeighsOddLengths) {
  for (size_t count : {1U, 15U, 16U, 255U, 256U, 257U, 1000U}) {
    const std::vector<float> logits = RandomLogits(count, 5, static_cast<uint32_t>(count));
    const float best = Max(logits);
    EXPECT_EQ(best, *std::ranges::max_element(logits));
    std::vector<float> weights(count);
    std::vector<double> sums;
    const double total = Weigh(logits, best, 0.7F, weights.data(), sums);
    double exact_total = 0;
    for (size_t i = 0; i < count; ++i) {
      const double exact = std::exp((static_cast<double>(logits[i]) - best) / 0.7F);
      exact_total += exact;
      EXPECT_NEAR(weights[i], exact, 1e-5 * exact + 1e-37) << i;
    }
    EXPECT_NEAR(total / exact_total, 1, 1e-5);
    ASSERT_EQ(sums.size(), (count + kSoftmaxBlock - 1) / kSoftmaxBlock);
    for (size_t block = 0; block < sums.size(); ++block) {
      double sum = 0;
      for (size_t i = block * kSoftmaxBlock; i < std::min(count, (block + 1) * kSoftmaxBlock); ++i)
        sum += weights[i];
      EXPECT_NEAR(sums[block], sum, 1e-9 * sum);
    }
  }
}

TEST(Softmax, FindsWhatIsLargeWhereverItIs) {
  for (size_t count : {1U, 63U, 64U, 65U, 700U}) {
    const std::vector<float> values = RandomLogits(count, 1, 7);
    for (float least : {-kInf, -1.0F, 0.5F, 2.0F, kInf}) {
      std::vector<size_t> expected;
      for (size_t i = 0; i < count; ++i) {
        if (values[i] >= least) expected.push_back(i);
      }
      std::vector<size_t> found;
      ForEachAtLeast(values, least, [&](size_t i) { found.push_back(i); });
      EXPECT_EQ(found, expected);
    }
    std::vector<float> maxima;
    BlockMaxima(values, maxima);
    EXPECT_EQ(*std::ranges::max_element(maxima), *std::ranges::max_element(values));
  }
}

}  // namespace
}  // namespace pie
