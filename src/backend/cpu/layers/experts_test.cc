#include "backend/cpu/layers/experts.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pie::cpu {
namespace {

struct Routed {
  std::vector<uint32_t> chosen;
  std::vector<float> shares;
};

Routed RouteAll(const std::vector<float>& logits, uint32_t used, bool renormalize) {
  Routed routed{std::vector<uint32_t>(used), std::vector<float>(used)};
  Route(logits, renormalize, routed.chosen, routed.shares);
  return routed;
}

TEST(RouteTest, OrdersExpertsByLogit) {
  const Routed routed = RouteAll({0.5F, 2, -1, 3, 2}, 3, true);
  EXPECT_EQ(routed.chosen, (std::vector<uint32_t>{3, 1, 4}));  // the first among equals
  const double sum = std::exp(3) + 2 * std::exp(2);
  EXPECT_NEAR(routed.shares[0], std::exp(3) / sum, 1e-6);
  EXPECT_NEAR(routed.shares[1], std::exp(2) / sum, 1e-6);
  EXPECT_EQ(routed.shares[1], routed.shares[2]);
}

TEST(RouteTest, SharesOfAllExpertsNeedNotSumToOne) {
  const Routed routed = RouteAll({0, 1, 2}, 2, false);
  const double sum = 1 + std::exp(1) + std::exp(2);
  EXPECT_NEAR(routed.shares[0], std::exp(2) / sum, 1e-6);
  EXPECT_NEAR(routed.shares[1], std::exp(1) / sum, 1e-6);
}

TEST(RouteTest, LargeLogitsDoNotOverflow) {
  const Routed routed = RouteAll({1000, 999, -1000}, 2, true);
  EXPECT_NEAR(routed.shares[0], 1 / (1 + std::exp(-1)), 1e-6);
}

TEST(RouteTest, PicksEachExpertOnceForAnyNumbers) {
  const Routed routed = RouteAll({NAN, NAN, NAN}, 3, true);
  EXPECT_EQ(routed.chosen, (std::vector<uint32_t>{0, 1, 2}));
  EXPECT_TRUE(std::isnan(routed.shares[0]));
}

}  // namespace
}  // namespace pie::cpu
