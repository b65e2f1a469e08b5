#include "backend/cpu/layers/norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/testing.h"

namespace pie::cpu {
namespace {

std::vector<double> Expected(const std::vector<float>& x, const std::vector<float>& weight,
                             float epsilon) {
  double squares = 0;
  for (float v : x) squares += static_cast<double>(v) * v;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  std::vector<double> out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(x[i] * factor * weight[i]);
  return out;
}

class NormAtLevel : public AtLevel {};
PIE_TEST_AT_ALL_LEVELS(NormAtLevel);

TEST_P(NormAtLevel, FollowsTheDefinition) {
  for (const size_t n : {1UL, 7UL, 8UL, 15UL, 16UL, 17UL, 33UL, 576UL, 1000UL}) {
    const auto x = RandomFloats(n, n, 3);
    const auto weight = RandomFloats(n, n + 1, 2);
    const auto expected = Expected(x, weight, 1e-5F);
    std::vector<float> out(n + 1, 77);
    RmsNorm(GetParam(), x.data(), weight.data(), n, 1e-5F, out.data());
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(out[i], expected[i], 1e-6 + 1e-6 * n) << n;
    EXPECT_EQ(out[n], 77);  // nothing is written beyond the end
  }
}

TEST_P(NormAtLevel, WorksInPlaceAndOnZeros) {
  auto x = RandomFloats(50, 1);
  const auto weight = RandomFloats(50, 2);
  const auto expected = Expected(x, weight, 1e-6F);
  RmsNorm(GetParam(), x.data(), weight.data(), 50, 1e-6F, x.data());
  for (size_t i = 0; i < 50; ++i) EXPECT_NEAR(x[i], expected[i], 1e-5);
  std::vector<float> zeros(20, 0);
  RmsNorm(GetParam(), zeros.data(), weight.data(), 20, 1e-6F, zeros.data());
  EXPECT_EQ(zeros, std::vector<float>(20, 0));
}

TEST_P(NormAtLevel, AddsDeltaBeforeTheNorm) {
  for (const size_t n : {1UL, 13UL, 64UL, 100UL}) {
    auto x = RandomFloats(n, 3);
    auto delta = RandomFloats(n, 4);
    const auto weight = RandomFloats(n, 5);
    std::vector<float> sum(n);
    for (size_t i = 0; i < n; ++i) sum[i] = x[i] + delta[i];
    const auto expected = Expected(sum, weight, 1e-5F);
    AddRmsNorm(GetParam(), x.data(), delta.data(), weight.data(), n, 1e-5F, delta.data());
    EXPECT_EQ(x, sum);
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(delta[i], expected[i], 1e-5);
  }
}

}  // namespace
}  // namespace pie::cpu
