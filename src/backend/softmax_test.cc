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

TEST(Softmax, ExpMatchesTheStandardLibrary) {
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
    EXPECT_EQ(Max(logits), *std::ranges::max_element(logits));
    std::vector<SoftmaxBlock> blocks;
    const auto [best, total] = Weigh(logits, InverseOf(0.7F), blocks);
    EXPECT_EQ(best, Max(logits));
    std::vector<float> weights(count);
    WeighEach(logits, best, InverseOf(0.7F), weights.data());
    ASSERT_EQ(blocks.size(), (count + kSoftmaxBlock - 1) / kSoftmaxBlock);
    std::vector<double> exact_shares(blocks.size());
    double exact_total = 0;
    for (size_t i = 0; i < count; ++i) {
      const double exact = std::exp((static_cast<double>(logits[i]) - best) / 0.7F);
      exact_total += exact;
      exact_shares[i / kSoftmaxBlock] += exact;
      EXPECT_NEAR(weights[i], exact, 1e-5 * exact + 1e-37) << i;
      EXPECT_EQ(weights[i], WeightOf(logits[i], best, InverseOf(0.7F)));
    }
    EXPECT_NEAR(total / exact_total, 1, 1e-5);
    for (size_t block = 0; block < blocks.size(); ++block) {
      EXPECT_NEAR(blocks[block].share / exact_shares[block], 1, 1e-5) << block;
      const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(block * kSoftmaxBlock);
      const auto end =
          count - block * kSoftmaxBlock < kSoftmaxBlock ? logits.end() : begin + kSoftmaxBlock;
      EXPECT_EQ(blocks[block].max, *std::max_element(begin, end));
    }
  }
}

// The best logit may be in the first block or come after blocks that were summed without it.
TEST(Softmax, ThePlaceOfTheBestDoesNotMatter) {
  for (const size_t place : {size_t{0}, size_t{700}, 4 * kSoftmaxBlock - 1}) {
    for (const float height : {5.0F, 30.0F, 60.0F, 1e30F}) {
      std::vector<float> logits = RandomLogits(4 * kSoftmaxBlock, 1, 3);
      logits[place] = height;
      std::vector<SoftmaxBlock> blocks;
      const auto [best, total] = Weigh(logits, InverseOf(1), blocks);
      double exact = 0;
      for (const float logit : logits) exact += std::exp(static_cast<double>(logit) - height);
      EXPECT_EQ(best, height);
      EXPECT_NEAR(total / exact, 1, 1e-6) << place << " " << height;
    }
  }
}

TEST(Softmax, ArgmaxOfAllowedValues) {
  for (const size_t count : {40U, 64U, 100U, 1000U}) {
    std::vector<float> values = RandomLogits(count, 5, static_cast<uint32_t>(count));
    values[7] = std::nanf("");
    values[count - 1] = values[count / 2];  // the first of equal values counts
    for (const uint32_t every : {1U, 2U, 9U, 37U}) {
      std::vector<uint32_t> bits((count + 31) / 32);
      std::optional<uint32_t> expected;
      for (uint32_t i = 0; i < count; i += every) {
        bits[i / 32] |= 1U << (i % 32);
        if (values[i] > (expected ? values[*expected] : -kInf)) expected = i;
      }
      EXPECT_EQ(ArgmaxAllowed(values, bits), expected) << count << " " << every;
    }
    EXPECT_EQ(ArgmaxAllowed(values, std::vector<uint32_t>((count + 31) / 32)), std::nullopt);
  }
}

TEST(Softmax, HandlesInfinitiesAndEmptyRows) {
  std::vector<SoftmaxBlock> blocks;
  std::vector<float> logits(600, -kInf);
  EXPECT_EQ(Weigh(logits, 1, blocks).best, -kInf);
  EXPECT_EQ(Weigh({}, 1, blocks).best, -kInf);
  logits[10] = std::nanf("");
  logits[300] = 2;
  EXPECT_EQ(Weigh(logits, 1, blocks).best, 2);
  EXPECT_EQ(Weigh(logits, 1, blocks).total, 1);
  logits[20] = logits[590] = kInf;
  EXPECT_EQ(Weigh(logits, 1, blocks).best, kInf);
  EXPECT_EQ(Weigh(logits, 1, blocks).total, 2);
  EXPECT_EQ(Weigh(logits, InverseOf(kInf), blocks).total, 2);
  EXPECT_TRUE(std::isfinite(InverseOf(1e-45F)));
}

TEST(Softmax, FindsLargeValuesAtAnyPlace) {
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
