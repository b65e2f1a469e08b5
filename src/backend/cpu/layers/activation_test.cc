#include "backend/cpu/layers/activation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

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

TEST_P(ActivationAtLevel, IsGeluTimesUp) {
  const auto gate = RandomFloats(1003, 5, 9);
  const auto up = RandomFloats(1003, 6, 3);
  std::vector<float> out(1003);
  Gate(GetParam(), Activation::kGeluTanh, gate.data(), up.data(), 1003, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    const double x = gate[i];
    const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
    const double expected = x / 2 * (1 + std::tanh(inner)) * up[i];
    EXPECT_NEAR(out[i], expected, 1e-5 * std::abs(expected) + 1e-7) << x;
  }
}

TEST_P(ActivationAtLevel, IsClampedSwiglu) {
  const auto gate = RandomFloats(1003, 5, 12);
  const auto up = RandomFloats(1003, 6, 12);
  std::vector<float> out(1003);
  Gate(GetParam(), Activation::kClampedSwiglu, gate.data(), up.data(), 1003, out.data());
  for (size_t i = 0; i < out.size(); ++i) {
    const double x = std::min(double{gate[i]}, 7.0);
    const double u = std::clamp(double{up[i]}, -7.0, 7.0);
    const double expected = (u + 1) * x / (1 + std::exp(-1.702 * x));
    EXPECT_NEAR(out[i], expected, 2e-6 * std::abs(expected) + 1e-30) << gate[i] << " " << up[i];
  }
  std::vector<float> bad = {NAN, 1, 0, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  Gate(GetParam(), Activation::kClampedSwiglu, bad.data(), gate.data(), bad.size(), bad.data());
  EXPECT_TRUE(std::isnan(bad[0]) && !std::isnan(bad[1]));
}

TEST_P(ActivationAtLevel, SoftCapIsAScaledTanh) {
  auto x = RandomFloats(1003, 8, 90);
  const auto before = x;
  SoftCap(GetParam(), 30, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(x[i], 30 * std::tanh(before[i] / 30.0), 1e-5);
  }
}

TEST_P(ActivationAtLevel, HandlesExtremeNumbers) {
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
