#include "backend/cpu/matmul/split_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/testing.h"
#include "model/half.h"

namespace pie::cpu {
namespace {

class SplitRowsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (DetectCpuLevel() < CpuLevel::kAvx512Bf16)
      GTEST_SKIP() << "this processor has no products of bfloat16";
  }
};

TEST_F(SplitRowsTest, TheTwoPartsSumToTheNumber) {
  SplitRows split;
  for (const uint32_t columns : {32U, 96U, 2048U}) {
    split.Resize(3, columns);
    for (uint32_t row = 0; row < 3; ++row) {
      auto x = RandomFloats(columns, row, std::pow(1000.0F, static_cast<float>(row) - 1));
      x[0] = 0;
      x[1] = -1;  // the high part is exact
      SplitRow(x.data(), split, row);
      for (uint32_t i = 0; i < columns; ++i) {
        const float high = BFloatToFloat(split.High(row)[i]);
        const float low = BFloatToFloat(split.Low(row)[i]);
        EXPECT_LE(std::abs(high - x[i]), std::abs(x[i]) * 0x1p-8F);
        EXPECT_LE(std::abs(high + low - x[i]), std::abs(x[i]) * 0x1p-17F) << x[i];
      }
      EXPECT_EQ(BFloatToFloat(split.Low(row)[1]), 0);
    }
  }
}

TEST_F(SplitRowsTest, SplittingOneRowLeavesTheOthers) {
  SplitRows split;
  split.Resize(20, 64);
  for (uint32_t row = 0; row < 20; ++row) {
    const std::vector<float> x(64, static_cast<float>(row));
    SplitRow(x.data(), split, row);
  }
  for (uint32_t row = 0; row < 20; ++row) {
    EXPECT_EQ(BFloatToFloat(split.High(row)[0]), static_cast<float>(row));
    EXPECT_EQ(BFloatToFloat(split.High(row)[63]), static_cast<float>(row));
    EXPECT_EQ(BFloatToFloat(split.Low(row)[63]), 0);
  }
}

// A NaN or infinity reaches every product of the row.
TEST_F(SplitRowsTest, PropagatesNanAndInfinity) {
  SplitRows split;
  split.Resize(1, 32);
  std::vector<float> x(32, 1.0F);
  x[3] = std::numeric_limits<float>::infinity();
  x[4] = std::numeric_limits<float>::quiet_NaN();
  SplitRow(x.data(), split, 0);
  for (const uint32_t i : {3U, 4U}) {
    const float sum = BFloatToFloat(split.High(0)[i]) + BFloatToFloat(split.Low(0)[i]);
    EXPECT_FALSE(std::isfinite(sum));
  }
}

}  // namespace
}  // namespace pie::cpu
