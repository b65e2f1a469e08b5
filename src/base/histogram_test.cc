#include "base/histogram.h"

#include <gtest/gtest.h>

namespace pie {
namespace {

TEST(Histogram, CountsEachDurationInItsBucket) {
  Histogram histogram;
  histogram.Add(0);
  histogram.Add(100'000);            // 0.1 ms: within the first bound
  histogram.Add(100'001);            // just past it
  histogram.Add(1'000'000);          // 1 ms: within 1.6 ms
  histogram.Add(1'000'000'000'000);  // above every bound
  EXPECT_EQ(histogram.count(0), 2u);
  EXPECT_EQ(histogram.count(1), 1u);
  EXPECT_EQ(histogram.count(4), 1u);
  EXPECT_EQ(histogram.count(Histogram::kBounds), 1u);
  EXPECT_NEAR(histogram.sum_seconds(), 1000.0012, 1e-6);
}

}  // namespace
}  // namespace pie
