#include "backend/cpu/matmul/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/layers/linear.h"
#include "backend/cpu/test_weights.h"
#include "backend/cpu/testing.h"
#include "model/dequantize.h"

namespace pie::cpu {
namespace {

std::vector<float> Floats(DType dtype, const std::vector<std::byte>& data, size_t count) {
  std::vector<float> floats(count);
  EXPECT_TRUE(Dequantize(dtype, data, floats).has_value());
  return floats;
}

struct Case {
  DType dtype;
  uint32_t m, n, k;
};

// x · wᵀ in double, and the sum of the magnitudes of its terms.
struct Expected {
  double value = 0;
  double size = 0;
};
Expected Dot(const float* x, const float* w, uint32_t k) {
  Expected e;
  for (uint32_t i = 0; i < k; ++i) {
    e.value += static_cast<double>(x[i]) * w[i];
    e.size += std::abs(static_cast<double>(x[i]) * w[i]);
  }
  return e;
}

// Runs a case at a level into y [m, n + 3]; the gap after each row must stay as it was.
constexpr float kGap = 12345;
std::vector<float> Multiply(CpuLevel level, ThreadPool& pool, const Case& c, const PackedMatrix& w,
                            const std::vector<float>& x) {
  const size_t stride = c.n + 3;
  std::vector<float> y(c.m * stride, kGap);
  Activations rows;
  rows.Resize(level, c.m, c.k, w.quantized());
  for (uint32_t row = 0; row < c.m; ++row) {
    std::copy_n(&x[size_t{row} * c.k], c.k, rows.Row(row));
    rows.Seal(row);
  }
  MatMulAll(level, pool, rows, {{w, y.data(), stride}});
  for (uint32_t row = 0; row < c.m; ++row) {
    for (size_t i = c.n; i < stride; ++i) EXPECT_EQ(y[row * stride + i], kGap);
  }
  return y;
}

constexpr DType kQuantized[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0,   DType::kQ5_0,
                                DType::kQ5_1, DType::kQ2_K, DType::kQ3_K,   DType::kQ4_K,
                                DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS,
                                DType::kMXFP4};

std::vector<DType> AllTypes() {
  std::vector<DType> all;
  for (const DType dtype : kQuantized) all.push_back(dtype);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) all.push_back(dtype);
  return all;
}

// Allowed error of a product as a share of its terms. Rounding x to 8 bits costs half a step of 2 /
// 127 per term, and these errors mostly cancel.
double Tolerance(CpuLevel level, const PackedMatrix& w) {
  if (w.quantized()) return 0.008;
  return TakesSplitRows(level, w) ? 0x1p-17 : 1e-6;
}

class MatMulAtLevel : public AtLevel {
 protected:
  PackedMatrix Pack(const Case& c, const std::vector<std::byte>& data) {
    auto packed = PackedMatrix::Pack(c.dtype, data, c.n, c.k, arena_);
    EXPECT_TRUE(packed.has_value());
    return *packed;
  }

  Arena arena_;
  ThreadPool pool_;
};
PIE_TEST_AT_ALL_LEVELS(MatMulAtLevel);

TEST_P(MatMulAtLevel, IsTheProductOfTheDequantisedNumbers) {
  for (const DType dtype : AllTypes()) {
    for (const auto& [m, n, k] : {std::tuple{1U, 1U, 32U},
                                  {1U, 16U, 64U},
                                  {1U, 33U, 96U},
                                  {2U, 47U, 32U},
                                  {3U, 8U, 160U},
                                  {5U, 24U, 576U},
                                  {7U, 100U, 64U},
                                  {13U, 31U, 96U},
                                  {40U, 17U, 32U},
                                  {3U, 20U, 256U},
                                  {16U, 64U, 288U},
                                  {33U, 50U, 64U},
                                  {9U, 35U, 512U}}) {
      if (k % InfoOf(dtype).block_elements != 0) continue;
      const Case c{dtype, m, n, k};
      const auto data = RandomWeights(dtype, n, k, m * 1000 + n);
      const auto weights = Floats(dtype, data, static_cast<size_t>(n) * k);
      const auto x = RandomFloats(static_cast<size_t>(m) * k, n, 2);
      const PackedMatrix w = Pack(c, data);
      const auto y = Multiply(GetParam(), pool_, c, w, x);
      const double tolerance = Tolerance(GetParam(), w);
      for (uint32_t row = 0; row < m; ++row) {
        for (uint32_t i = 0; i < n; ++i) {
          const Expected e =
              Dot(x.data() + row * k, weights.data() + static_cast<size_t>(i) * k, k);
          EXPECT_NEAR(y[row * (n + 3) + i], e.value, e.size * tolerance + 1e-5)
              << NameOf(dtype) << " " << m << "×" << n << "×" << k << " at " << row << ", " << i;
        }
      }
    }
  }
}

TEST_P(MatMulAtLevel, FloatsSupportAnyNumberOfColumns) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    for (const uint32_t k : {1U, 2U, 7U, 33U}) {
      const Case c{dtype, 5, 19, k};
      const auto data = RandomWeights(dtype, c.n, k, k);
      const auto weights = Floats(dtype, data, c.n * k);
      const auto x = RandomFloats(c.m * k, 4);
      const auto y = Multiply(GetParam(), pool_, c, Pack(c, data), x);
      for (uint32_t row = 0; row < c.m; ++row) {
        for (uint32_t i = 0; i < c.n; ++i) {
          const Expected e = Dot(x.data() + row * k, weights.data() + i * k, k);
          EXPECT_NEAR(y[row * (c.n + 3) + i], e.value, e.size * 1e-6 + 1e-7);
        }
      }
    }
  }
}

// Sum of the magnitudes of a row's minima that are stored as multiples of a unit.
double AllMinima(const PackedMatrix& w, uint32_t row) {
  const PanelLayout layout = LayoutOf(w.format());
  if (!layout.whole_min()) return 0;
  const std::byte* const panel = w.Panel(row / kPanelRows);
  const uint32_t lane = row % kPanelRows;
  const uint32_t blocks = w.columns() / kQuantBlock;
  double sum = 0;
  for (uint32_t b = 0; b < blocks; ++b) {
    sum += std::abs(MultipleAt(layout, panel, blocks, b, lane));
  }
  return sum * UnitAt(layout, panel, blocks, lane);
}

TEST_P(MatMulAtLevel, IsExactOnBytes) {
  // If 8 bits hold x exactly, only float rounding remains, even with four outliers removed. Where
  // minima are multiplied with sums of blocks, each of those is off by at most half a unit of its
  // row. K types round their scales, so the packed matrix is the reference.
  for (const DType dtype : kQuantized) {
    const Case c{dtype, 7, 45, 256};
    const auto data = RandomWeights(dtype, c.n, c.k, 3);
    const PackedMatrix w = Pack(c, data);
    std::vector<float> weights(size_t{c.n} * c.k);
    for (uint32_t i = 0; i < c.n; ++i) w.UnpackRow(i, std::span(weights).subspan(i * c.k, c.k));
    std::vector<float> x(c.m * c.k);
    for (size_t i = 0; i < x.size(); ++i) {
      x[i] = i % 5 == 0 ? -127 : static_cast<float>(CounterRng{9}.Bits(i) % 255) - 127;
    }
    const auto y = Multiply(GetParam(), pool_, c, w, x);
    QuantizedRows rows;
    QuantizeRows(CpuLevel::kScalar, x.data(), c.k, c.m, c.k, rows);
    for (uint32_t row = 0; row < c.m; ++row) {
      for (uint32_t i = 0; i < c.n; ++i) {
        const Expected e =
            Dot(x.data() + row * c.k, weights.data() + static_cast<size_t>(i) * c.k, c.k);
        const double off = AllMinima(w, i) * rows.sum_units[row] / 2;
        EXPECT_NEAR(y[row * (c.n + 3) + i], e.value, off + e.size * 2e-6) << NameOf(dtype);
      }
    }
  }
}

TEST_P(MatMulAtLevel, ARowDoesNotDependOnTheBatch) {
  for (const DType dtype : AllTypes()) {
    const Case all{dtype, 39, 70, 256};
    const auto data = RandomWeights(dtype, all.n, all.k, 5);
    const auto x = RandomFloats(all.m * all.k, 6);
    const PackedMatrix w = Pack(all, data);
    const auto together = Multiply(GetParam(), pool_, all, w, x);
    for (uint32_t row = 0; row < all.m; ++row) {
      const Case one{dtype, 1, all.n, all.k};
      const std::vector<float> its(x.begin() + row * all.k, x.begin() + (row + 1) * all.k);
      const auto alone = Multiply(GetParam(), pool_, one, w, its);
      EXPECT_EQ(std::memcmp(alone.data(), together.data() + row * (all.n + 3), 4 * all.n), 0)
          << NameOf(dtype) << " row " << row;
    }
  }
}

TEST_P(MatMulAtLevel, ManyRowsAreDividedIntoChunks) {
  const Case c{DType::kQ8_0, 300, 20, 2048};  // 600 KB of x
  const auto data = RandomWeights(c.dtype, c.n, c.k, 8);
  const auto x = RandomFloats(static_cast<size_t>(c.m) * c.k, 9);
  if (GetParam() == CpuLevel::kScalar) GTEST_SKIP() << "slow, and divided the same way";
  const PackedMatrix w = Pack(c, data);
  const auto y = Multiply(GetParam(), pool_, c, w, x);
  const Case last{c.dtype, 1, c.n, c.k};
  const std::vector<float> row(x.end() - c.k, x.end());
  const auto expected = Multiply(GetParam(), pool_, last, w, row);
  EXPECT_EQ(std::memcmp(expected.data(), y.data() + 299 * (c.n + 3), 4 * c.n), 0);
}

TEST(MatMul, VectorLevelsAgreeToTheBit) {
  Arena arena;
  ThreadPool pool(1);
  for (const DType dtype : AllTypes()) {
    const Case c{dtype, 9, 50, 256};
    const auto data = RandomWeights(dtype, c.n, c.k, 11);
    const auto x = RandomFloats(c.m * c.k, 12);
    const PackedMatrix w = PackedMatrix::Pack(dtype, data, c.n, c.k, arena).value();
    std::vector<float> expected;
    for (const CpuLevel level : SupportedCpuLevels()) {
      if (level == CpuLevel::kScalar || TakesSplitRows(level, w)) continue;
      const auto y = Multiply(level, pool, c, w, x);
      if (expected.empty()) expected = y;
      EXPECT_EQ(y, expected) << NameOf(dtype) << " at " << NameOf(level);
    }
  }
}

}  // namespace
}  // namespace pie::cpu
