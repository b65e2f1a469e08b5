#include "model/adapter/zo.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace pie {
namespace {

AdapterShape SmallShape() {
  return {.layers = 2, .targets = {{{6, 80}, {6, 4}, {6, 4}, {8, 6}, {6, 10}, {6, 10}, {10, 6}}}};
}

TEST(Zo, NoiseHasMeanZeroAndIsUncorrelated) {
  double sum = 0;
  double product = 0;
  constexpr int kSeeds = 4'000;
  for (int64_t seed = 1; seed <= kSeeds; ++seed) {
    const ZoNoise noise(seed, 3, AdapterTarget::kUp);
    const auto sign = [&](uint64_t bits, int at) { return (bits >> at & 1) != 0 ? 1 : -1; };
    const int a = sign(noise.Rows(0), 5) * sign(noise.Columns(0), 2);
    const int b = sign(noise.Rows(0), 6) * sign(noise.Columns(0), 2);
    sum += a;
    product += a * b;
  }
  EXPECT_LT(std::abs(sum) / kSeeds, 0.06);
  EXPECT_LT(std::abs(product) / kSeeds, 0.06);
}

TEST(Zo, SeedsOfOppositeSignsArePairs) {
  const ZoNoise plus(42, 1, AdapterTarget::kQ);
  const ZoNoise minus(-42, 1, AdapterTarget::kQ);
  EXPECT_EQ(plus.key, minus.key);
  EXPECT_EQ(plus.sign, -minus.sign);
  EXPECT_NE(plus.key, ZoNoise(43, 1, AdapterTarget::kQ).key);
  EXPECT_NE(plus.key, ZoNoise(42, 0, AdapterTarget::kQ).key);
  EXPECT_NE(plus.key, ZoNoise(42, 1, AdapterTarget::kK).key);
}

TEST(Zo, WeightsFollowRanksAndShareTies) {
  const std::vector<double> weights = ZoWeights(std::vector<float>{1, 4, 2, 3}, 0.5F);
  EXPECT_NEAR(std::accumulate(weights.begin(), weights.end(), 0.0), 1, 1e-12);
  EXPECT_EQ(weights[0], 0);
  EXPECT_EQ(weights[2], 0);
  EXPECT_GT(weights[1], weights[3]);
  for (const double weight : ZoWeights(std::vector<float>{7, 7, 7, 7}, 0.5F)) {
    EXPECT_NEAR(weight, 0.25, 1e-12);
  }
}

TEST(Zo, APairOfEqualScoresLeavesTheAdapter) {
  AdapterWeights weights = *MakeAdapter(SmallShape(), 2, 2);
  ZoState state = *StartZo(2, 1, 0.5F);
  ASSERT_TRUE(UpdateZo(std::vector<float>{3, 3}, std::vector<int64_t>{8, -8}, 1, state, weights));
  for (const auto& layer : weights.layers) {
    for (const LowRank& part : layer) {
      for (const float b : part.b) EXPECT_EQ(b, 0);
    }
  }
  EXPECT_EQ(state.generations, 1u);
}

// Maximises the sum of one matrix's entries times fixed signs: the update must follow them.
TEST(Zo, UpdatesClimb) {
  AdapterWeights weights = *MakeAdapter(SmallShape(), 2, 2);
  ZoState state = *StartZo(32, 0.5F, 0.1F);
  const auto score = [](const AdapterWeights& adapter, int64_t seed, float sigma) {
    const LowRank& part = adapter.layers[1][6];
    const ZoNoise noise(seed, 1, AdapterTarget::kDown);
    double sum = 0;
    for (size_t i = 0; i < part.b.size(); ++i) {
      const bool u = (noise.Rows(0) >> (i / 2) & 1) != 0;
      const bool v = (noise.Columns(0) >> (i % 2) & 1) != 0;
      const float b = part.b[i] + noise.sign * (u == v ? sigma : -sigma);
      sum -= (b - 1) * (b - 1);
    }
    return static_cast<float>(sum);
  };
  const float before = score(weights, 1, 0);
  int64_t next = 1;
  for (int generation = 0; generation < 60; ++generation) {
    std::vector<int64_t> seeds;
    std::vector<float> scores;
    for (int i = 0; i < 16; ++i, ++next) {
      for (const int64_t seed : {next, -next}) {
        seeds.push_back(seed);
        scores.push_back(score(weights, seed, state.sigma));
      }
    }
    ASSERT_TRUE(UpdateZo(scores, seeds, 0.5F, state, weights));
    EXPECT_LE(state.sigma, 0.5F);
  }
  EXPECT_GT(score(weights, 1, 0), before * 0.1F);  // the score is negative
}

TEST(Zo, AnUpdateStopsWhenItIsTold) {
  AdapterWeights weights = *MakeAdapter(SmallShape(), 2, 2);
  ZoState state = *StartZo(2, 1, 0.5F);
  int asked = 0;
  const Status done = UpdateZo(std::vector<float>{1, 2}, std::vector<int64_t>{1, 2}, 1, state,
                               weights, [&] { return ++asked == 3; });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kCancelled);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(state.generations, 0u);
}

TEST(Zo, WrongArgumentsChangeNothing) {
  EXPECT_FALSE(StartZo(0, 0.5F, 1));
  EXPECT_FALSE(StartZo(4, 0, 1));
  EXPECT_FALSE(StartZo(4, 1.5F, 1));
  EXPECT_FALSE(StartZo(4, 0.5F, -1));
  EXPECT_FALSE(StartZo(4, 0.5F, NAN));
  AdapterWeights weights = *MakeAdapter(SmallShape(), 2, 2);
  ZoState state = *StartZo(2, 1, 0.5F);
  const std::vector<int64_t> seeds = {1, 2};
  EXPECT_FALSE(UpdateZo(std::vector<float>{1}, seeds, 1, state, weights));
  EXPECT_FALSE(UpdateZo(std::vector<float>{1, NAN}, seeds, 1, state, weights));
  EXPECT_FALSE(UpdateZo(std::vector<float>{1, 2}, seeds, -1, state, weights));
  EXPECT_FALSE(
      UpdateZo(std::vector<float>{1, 2, 3}, std::vector<int64_t>{1, 2, 3}, 1, state, weights));
  ZoState none;
  EXPECT_FALSE(UpdateZo(std::vector<float>{1, 2}, seeds, 1, none, weights));
  EXPECT_EQ(state.generations, 0u);
  EXPECT_EQ(weights.layers[0][0].b[0], 0);
}

}  // namespace
}  // namespace pie
