#include "backend/cpu/adapters/low_rank.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backend/cpu/adapters/cpu_adapter.h"
#include "backend/cpu/testing.h"
#include "model/adapter/adapter.h"

namespace pie::cpu {
namespace {

constexpr uint32_t kIn = 70;  // neither is a whole number of lanes
constexpr uint32_t kOut = 90;

// One matrix of one layer, and the rank that is not a whole group.
AdapterWeights OneMatrix(uint32_t rank) {
  AdapterWeights weights = EmptyAdapter({.layers = 1});
  LowRank& part = weights.layers[0][AdapterSlot(AdapterTarget::kUp)];
  part = {.rank = rank, .alpha = 6, .scale = 0.5F};
  part.a = RandomFloats(size_t{rank} * kIn, 1);
  part.b = RandomFloats(size_t{kOut} * rank, 2);
  return weights;
}

class LowRankTest : public AtLevel {
 protected:
  std::vector<float> Product(const PackedLowRank& w, const std::vector<const float*>& x) {
    LowRankTile<const float> from{.rows = static_cast<uint32_t>(x.size())};
    LowRankTile<float> h{.rows = from.rows};
    LowRankTile<const float> read{.rows = from.rows};
    LowRankTile<float> y{.rows = from.rows};
    std::vector<float> hs(x.size() * w.rank);
    std::vector<float> ys(x.size() * kOut, 1);
    for (size_t i = 0; i < x.size(); ++i) {
      from.row[i] = x[i];
      read.row[i] = h.row[i] = &hs[i * w.rank];
      y.row[i] = &ys[i * kOut];
    }
    Shrink(GetParam(), w, from, h);
    Expand(GetParam(), w, read, 0, 32, y);
    for (size_t i = 0; i < x.size(); ++i) y.row[i] += 32;
    Expand(GetParam(), w, read, 32, kOut - 32, y);
    return ys;
  }
};

TEST_P(LowRankTest, AddsTheProduct) {
  const AdapterWeights weights = OneMatrix(11);
  const LowRank& part = weights.layers[0][5];
  const CpuAdapter adapter(GetParam(), weights, {.layers = 1, .head_dim = 4});
  const std::vector<float> x = RandomFloats(kIn, 3);
  const std::vector<float> y = Product(adapter.Of(0, AdapterSlot(AdapterTarget::kUp)), {x.data()});
  for (size_t i = 0; i < kOut; ++i) {
    double expected = 1;
    for (size_t j = 0; j < part.rank; ++j) {
      for (size_t k = 0; k < kIn; ++k) {
        expected += 0.5 * part.b[i * part.rank + j] * part.a[j * kIn + k] * x[k];
      }
    }
    EXPECT_NEAR(y[i], expected, 0.01);  // of 16-bit weights
  }
}

TEST_P(LowRankTest, ARowDoesNotDependOnItsTile) {
  const CpuAdapter adapter(GetParam(), OneMatrix(16), {.layers = 1, .head_dim = 4});
  const PackedLowRank& w = adapter.Of(0, AdapterSlot(AdapterTarget::kUp));
  const std::vector<float> x = RandomFloats(size_t{3} * kIn, 3);
  const std::vector<float> all = Product(w, {&x[0], &x[kIn], &x[size_t{2} * kIn]});
  const std::vector<float> two = Product(w, {&x[kIn], &x[0]});
  const std::vector<float> one = Product(w, {&x[kIn]});
  for (size_t i = 0; i < kOut; ++i) {
    EXPECT_EQ(all[kOut + i], one[i]);
    EXPECT_EQ(two[i], one[i]);
    EXPECT_EQ(two[kOut + i], all[i]);
  }
}

TEST_P(LowRankTest, SignsAreAdded) {
  const uint64_t signs[] = {0x0123456789ABCDEF, 0xF0F0};
  std::vector<float> y(80, 10);
  AddSigned(GetParam(), signs, 2, 75, y.data());
  for (size_t i = 0; i < 80; ++i) {
    const float expected = (signs[i / 64] >> (i % 64) & 1) != 0 ? 12 : 8;
    EXPECT_EQ(y[i], i < 75 ? expected : 10);
  }
}

PIE_TEST_AT_ALL_LEVELS(LowRankTest);

}  // namespace
}  // namespace pie::cpu
