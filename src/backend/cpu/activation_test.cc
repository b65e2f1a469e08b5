#include "backend/cpu/activation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/testing.h"

namespace pie::cpu {
namespace {

double Silu(double x) {
  return x / (1 + std::exp(-x));
}

class ActivationAtLevel : public AtLevel {};
PIE_TEST_AT_ALL_LEVELS(ActivationAtLevel);

TEST_P(ActivationAtLevel, IsSiluTimesUp) {
  for (const size_t n : {1UL, 7UL, 8UL, 16UL, 23UL, 1536UL}) {
    const auto gate = RandomFloats(n, n, 12);
    const auto up = RandomFloats(n, n + 1, 3);
    std::vector<float> out(n + 1, 77);
    Gate(GetParam(), Activation::kSilu, gate.data(), up.data(), n, out.data());
    for (size_t i = 0; i < n; ++i) {
      const double expected = Silu(gate[i]) * up[i];
      EXPECT_NEAR(out[i], expected, 1e-6 * std::abs(expected) + 1e-30) << gate[i];
    }
    EXPECT_EQ(out[n], 77);
  }
}

TEST_P(ActivationAtLevel, HoldsAtTheEnds) {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> gate(16, 0);
  gate[1] = 200;
  gate[2] = -200;
  gate[3] = -87.5F;
  gate[4] = std::numeric_limits<float>::quiet_NaN();
  gate[5] = inf;
  gate[6] = -60;
  const std::vector<float> up(16, 1);
  Gate(GetParam(), Activation::kSilu, gate.data(), up.data(), 16, gate.data());  // in place
  EXPECT_EQ(gate[0], 0);
  EXPECT_EQ(gate[1], 200);
  EXPECT_NEAR(gate[2], 0, 1e-30);
  EXPECT_NEAR(gate[3], 0, 1e-30);
  EXPECT_TRUE(std::isnan(gate[4]));
  EXPECT_EQ(gate[5], inf);
  EXPECT_NEAR(gate[6] / Silu(-60), 1, 1e-6);
}

}  // namespace
}  // namespace pie::cpu
