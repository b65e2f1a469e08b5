#include "backend/cpu/layers/linear.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backend/cpu/layers/activation.h"
#include "backend/cpu/test_weights.h"
#include "backend/cpu/testing.h"

namespace pie::cpu {
namespace {

class LinearAtLevel : public AtLevel {
 protected:
  Linear Random(DType dtype, uint32_t rows, uint32_t columns, uint64_t seed, bool bias) {
    auto packed =
        PackedMatrix::Pack(dtype, RandomWeights(dtype, rows, columns, seed), rows, columns, arena_);
    EXPECT_TRUE(packed.has_value());
    return {*packed, bias ? RandomFloats(rows, seed + 1) : std::vector<float>{}};
  }
  Activations Rows(uint32_t rows, uint32_t columns) {
    Activations x;
    x.Resize(GetParam(), rows, columns, true);
    const auto numbers = RandomFloats(size_t{rows} * columns, rows, 2);
    for (uint32_t row = 0; row < rows; ++row) {
      std::copy_n(&numbers[size_t{row} * columns], columns, x.Row(row));
      x.Seal(row);
    }
    return x;
  }

  Arena arena_;
  ThreadPool pool_;
};
PIE_TEST_AT_ALL_LEVELS(LinearAtLevel);

// Tests row counts on both sides of every tile and chunk, and columns that end within a panel.
TEST_P(LinearAtLevel, GatedEqualsTheSeparateProducts) {
  const uint32_t hidden = 96;
  for (const uint32_t rows : {0U, 1U, 5U, 13U, 100U, 700U}) {
    for (const uint32_t ffn : {8U, 48U, 203U}) {
      const bool bias = rows % 2 == 0;
      const FeedForwardWeights weights{.gate = Random(DType::kQ4_1, ffn, hidden, 1, bias),
                                       .up = Random(DType::kF16, ffn, hidden, 2, bias),
                                       .down = {}};
      const Activations x = Rows(rows, hidden);
      std::vector<float> gate(size_t{rows} * ffn);
      std::vector<float> up(gate.size());
      MatMulAll(GetParam(), pool_, x,
                {{weights.gate.w, gate.data(), ffn}, {weights.up.w, up.data(), ffn}});
      Activations out;
      out.Resize(GetParam(), rows, ffn, false);
      MatMulGated(GetParam(), pool_, x, weights, Activation::kSilu, out);
      for (uint32_t row = 0; row < rows; ++row) {
        float* const g = &gate[size_t{row} * ffn];
        float* const u = &up[size_t{row} * ffn];
        AddBias(weights.gate.bias, g);
        AddBias(weights.up.bias, u);
        Gate(GetParam(), Activation::kSilu, g, u, ffn, g);
        for (uint32_t i = 0; i < ffn; ++i) {
          ASSERT_EQ(out.Row(row)[i], g[i]) << rows << " × " << ffn << " at " << row << ", " << i;
        }
      }
    }
  }
}

// Kernels cache what they derived from rows of the same id.
TEST_P(LinearAtLevel, NewRowsInvalidateTheCachedOutliers) {
  const Linear w = Random(DType::kQ4_1, 32, 576, 3, false);
  Activations x = Rows(20, 576);
  std::vector<float> y(size_t{20} * 32);
  MatMulAll(GetParam(), pool_, x, {{w.w, y.data(), 32}});
  const auto before = y;
  x.Resize(GetParam(), 20, 576, true);
  for (uint32_t row = 0; row < 20; ++row) {  // now other columns are the largest
    std::reverse(x.Row(row), x.Row(row) + 576);
    x.Seal(row);
  }
  MatMulAll(GetParam(), pool_, x, {{w.w, y.data(), 32}});
  EXPECT_NE(y, before);
  Activations fresh;
  fresh.Resize(GetParam(), 20, 576, true);
  for (uint32_t row = 0; row < 20; ++row) {
    std::copy_n(x.Row(row), 576, fresh.Row(row));
    fresh.Seal(row);
  }
  std::vector<float> expected(y.size());
  ThreadPool alone(1);
  MatMulAll(GetParam(), alone, fresh, {{w.w, expected.data(), 32}});
  EXPECT_EQ(y, expected);
}

}  // namespace
}  // namespace pie::cpu
