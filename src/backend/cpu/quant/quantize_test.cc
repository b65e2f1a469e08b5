#include "backend/cpu/quant/quantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backend/cpu/machine/halves.h"
#include "backend/cpu/machine/simd.h"
#include "backend/cpu/quant/panel_format.h"
#include "backend/cpu/testing.h"
#include "model/half.h"

namespace pie::cpu {
namespace {

class QuantizeAtLevel : public AtLevel {};
PIE_TEST_AT_ALL_LEVELS(QuantizeAtLevel);

TEST_P(QuantizeAtLevel, IsWithinHalfAStepAndSumsAreExact) {
  for (const uint32_t columns : {32U, 64U, 96U, 576U}) {
    const uint32_t rows = 3;
    const size_t stride = columns + 5;
    auto x = RandomFloats(rows * stride, columns, 3.0F);
    const auto before = x;
    QuantizedRows q;
    QuantizeRows(GetParam(), x.data(), stride, rows, columns, q);
    EXPECT_EQ(x, before);
    for (uint32_t row = 0; row < rows; ++row) {
      // Outliers stay floats; leave them out of the comparison.
      for (uint32_t i = 0; i < q.outliers_per_row(); ++i) {
        const Outlier& outlier = q.outliers[row * q.outliers_per_row() + i];
        float& value = x[row * stride + outlier.column];
        EXPECT_EQ(outlier.value, value);
        value = 0;
      }
      for (uint32_t b = 0; b < q.blocks(); ++b) {
        const size_t at = row * q.blocks() + b;
        const int8_t* const values = q.values.data() + at * 32;
        for (uint32_t i = 0; i < 32; ++i) {
          const float value = x[row * stride + b * 32 + i];
          EXPECT_NEAR(q.scales[at] * static_cast<float>(values[i]), value, q.scales[at] * 0.5001F);
        }
        EXPECT_EQ(q.sums[at], std::accumulate(values, values + 32, 0));
        EXPECT_EQ(q.first_sums[at], std::accumulate(values, values + 16, 0));
        const int16_t whole = q.whole_sums[row * q.whole_stride() + b];
        EXPECT_NEAR(q.sum_units[row] * static_cast<float>(whole),
                    q.scales[at] * static_cast<float>(q.sums[at]), q.sum_units[row] * 0.501F);
        EXPECT_LE(std::abs(whole), WholeLimit(q.blocks()));
      }
      for (uint32_t b = q.blocks(); b < q.whole_stride(); ++b) {
        EXPECT_EQ(q.whole_sums[row * q.whole_stride() + b], 0);
      }
    }
  }
}

TEST_P(QuantizeAtLevel, TheLargestNumbersStayFloats) {
  const uint32_t columns = 192;  // three outliers
  auto x = RandomFloats(columns, 5, 1.0F);
  x[70] = -50;
  x[71] = 20;
  x[180] = 30;
  QuantizedRows q;
  QuantizeRows(GetParam(), x.data(), columns, 1, columns, q);
  ASSERT_EQ(q.outliers_per_row(), 3);
  const std::pair<uint32_t, float> expected[] = {{70, -50.0F}, {180, 30.0F}, {71, 20.0F}};
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(q.outliers[i].column, expected[i].first);
    EXPECT_EQ(q.outliers[i].value, expected[i].second);
    EXPECT_EQ(q.values[q.outliers[i].column], 0);
  }
  for (float scale : q.scales) EXPECT_LE(scale, 1.0F / 127);
}

TEST_P(QuantizeAtLevel, ARowOfZerosStaysZero) {
  std::vector<float> x(288);
  x[0] = 2;
  QuantizedRows q;
  QuantizeRows(GetParam(), x.data(), 288, 1, 288, q);
  EXPECT_EQ(q.outliers[0].value, 2);
  EXPECT_EQ(q.outliers[1].value, 0);
  EXPECT_EQ(x[0], 2);
  for (float scale : q.scales) EXPECT_EQ(scale, 0);
}

TEST_P(QuantizeAtLevel, MatchesTheReference) {
  auto x = RandomFloats(32 * 40, 7, 1e4F);
  for (size_t i = 0; i < 32; ++i) x[i] = 0;                            // zeros
  for (size_t i = 32; i < 64; ++i) x[i] *= 1e-40F;                     // too small
  for (size_t i = 64; i < 96; ++i) x[i] = static_cast<float>(i) - 80;  // ties in rounding
  QuantizedRows expected;
  QuantizedRows q;
  QuantizeRows(CpuLevel::kScalar, x.data(), 0, 1, 32 * 40, expected);
  QuantizeRows(GetParam(), x.data(), 0, 1, 32 * 40, q);
  EXPECT_EQ(q.values, expected.values);
  EXPECT_EQ(q.scales, expected.scales);
  EXPECT_EQ(q.sums, expected.sums);
  EXPECT_EQ(q.first_sums, expected.first_sums);
  EXPECT_EQ(q.whole_sums, expected.whole_sums);
  EXPECT_EQ(q.sum_units, expected.sum_units);
  ASSERT_EQ(q.outliers.size(), expected.outliers.size());
  for (size_t i = 0; i < q.outliers.size(); ++i) {
    EXPECT_EQ(q.outliers[i].column, expected.outliers[i].column);
    EXPECT_EQ(q.outliers[i].value, expected.outliers[i].value);
  }
  EXPECT_EQ(q.scales[0], 0);
  EXPECT_EQ(q.scales[1], 0);
}

TEST_P(QuantizeAtLevel, PropagatesNanAndInfinity) {
  auto x = RandomFloats(96, 1, 1);
  x[5] = x[6] = std::numeric_limits<float>::quiet_NaN();
  x[40] = -std::numeric_limits<float>::infinity();
  QuantizedRows q;
  QuantizeRows(GetParam(), x.data(), 0, 1, 96, q);
  ASSERT_EQ(q.outliers_per_row(), 1);
  EXPECT_TRUE(std::isnan(q.outliers[0].value));
  EXPECT_TRUE(std::isnan(q.scales[0]));
  EXPECT_TRUE(std::isinf(q.scales[1]));
  EXPECT_TRUE(std::isfinite(q.scales[2]));
  EXPECT_TRUE(std::isnan(q.sum_units[0]));
  for (int16_t sum : q.whole_sums) EXPECT_EQ(sum, 0);
}

TEST(Half, AllLevelsStoreTheSame) {
  std::vector<float> numbers = RandomFloats(1'003, 5);
  numbers[7] = 65'520;
  numbers[8] = -0x1.8p-25F;
  for (const CpuLevel level : SupportedCpuLevels()) {
    for (const size_t stride : {1, 16}) {
      std::vector<uint16_t> halves(numbers.size() * stride);
      StoreHalves(level, numbers.data(), static_cast<uint32_t>(numbers.size()), halves.data(),
                  stride);
      for (size_t i = 0; i < numbers.size(); ++i) {
        EXPECT_EQ(halves[i * stride], FloatToHalf(numbers[i]));
      }
    }
  }
}

TEST(Half, RoundTrips) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = HalfToFloat(static_cast<uint16_t>(half));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
    } else {
      EXPECT_EQ(FloatToHalf(value), half);
    }
  }
  EXPECT_EQ(FloatToHalf(65519.0F), 0x7BFF);
  EXPECT_EQ(FloatToHalf(65520.0F), 0x7C00);
  EXPECT_EQ(FloatToHalf(1.0F + 0x1p-11F), 0x3C00);  // halfway: to even
  EXPECT_EQ(FloatToHalf(1.0F + 3 * 0x1p-11F), 0x3C02);
  EXPECT_EQ(FloatToHalf(0x1p-25F), 0);
  EXPECT_EQ(FloatToHalf(-0x1.8p-25F), 0x8001);
}

}  // namespace
}  // namespace pie::cpu
