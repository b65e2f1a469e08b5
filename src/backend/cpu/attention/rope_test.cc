#include "backend/cpu/attention/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "backend/cpu/testing.h"

namespace pie::cpu {
namespace {

class RopeAtLevel : public AtLevel {};
PIE_TEST_AT_ALL_LEVELS(RopeAtLevel);

TEST_P(RopeAtLevel, RotatesPairsLikeComplexNumbers) {
  for (const auto pairing : {RopeTable::Pairing::kHalves, RopeTable::Pairing::kNeighbours}) {
    for (const uint32_t dims : {2U, 6U, 16U, 20U, 64U, 80U}) {
      const uint32_t head_size = dims + 4;  // the rest of a head stays as it is
      const uint32_t heads = 3;
      const uint32_t position = 8191;
      const RopeTable table(pairing, dims, 100000);
      std::vector<float> cos(dims / 2);
      std::vector<float> sin(dims / 2);
      table.Angles(position, cos, sin);
      const auto before = RandomFloats(heads * head_size, dims);
      auto x = before;
      table.Apply(GetParam(), cos.data(), sin.data(), x.data(), heads, head_size);
      for (uint32_t head = 0; head < heads; ++head) {
        const float* const from = before.data() + head * head_size;
        const float* const to = x.data() + head * head_size;
        for (uint32_t i = 0; i < dims / 2; ++i) {
          const uint32_t a = pairing == RopeTable::Pairing::kHalves ? i : 2 * i;
          const uint32_t b = pairing == RopeTable::Pairing::kHalves ? i + dims / 2 : 2 * i + 1;
          const double angle = position * std::pow(100000.0, -2.0 * i / dims);
          const auto rotated = std::complex<double>(from[a], from[b]) * std::polar(1.0, angle);
          EXPECT_NEAR(to[a], rotated.real(), 3e-7);
          EXPECT_NEAR(to[b], rotated.imag(), 3e-7);
        }
        for (uint32_t i = dims; i < head_size; ++i) EXPECT_EQ(to[i], from[i]);
      }
    }
  }
}

TEST_P(RopeAtLevel, PositionZeroChangesNothing) {
  const RopeTable table(RopeTable::Pairing::kHalves, 64, 10000);
  std::vector<float> cos(32);
  std::vector<float> sin(32);
  table.Angles(0, cos, sin);
  auto x = RandomFloats(64, 1);
  const auto before = x;
  table.Apply(GetParam(), cos.data(), sin.data(), x.data(), 1, 64);
  EXPECT_EQ(x, before);
}

TEST(Rope, FactorsStretchFrequencies) {
  const std::vector<float> factors = {1, 2, 4};
  const RopeTable plain(RopeTable::Pairing::kHalves, 6, 10000);
  const RopeTable stretched(RopeTable::Pairing::kHalves, 6, 10000, factors);
  for (int i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(stretched.frequencies()[i], plain.frequencies()[i] / factors[i]);
  }
}

}  // namespace
}  // namespace pie::cpu
