#include "backend/cpu/matmul/repack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/cpu/test_weights.h"
#include "model/dequantize.h"

namespace pie::cpu {
namespace {

// Allowed error of a row's minima if the format stores them as multiples of a unit. The unit is as
// small as possible: the largest minimum is the largest multiple.
float HalfAUnit(const PackedMatrix& w, uint32_t row) {
  const PanelLayout layout = LayoutOf(w.format());
  if (!layout.whole_min()) return 0;
  const std::byte* const panel = w.Panel(row / kPanelRows);
  const uint32_t lane = row % kPanelRows;
  const uint32_t blocks = w.columns() / 32;
  int largest = 0;
  for (uint32_t b = 0; b < blocks; ++b) {
    largest = std::max(largest, std::abs(MultipleAt(layout, panel, blocks, b, lane)));
  }
  EXPECT_EQ(largest, WholeLimit(blocks));
  return UnitAt(layout, panel, blocks, lane) / 2;
}

// Compares a packed matrix with the definition of its type.
void ExpectUnpacks(DType dtype, PanelFormat format, uint32_t rows, float rounding) {
  Arena arena;
  const uint32_t columns = 512;
  const auto data = RandomWeights(dtype, rows, columns, rows);
  const auto packed = PackedMatrix::Pack(dtype, data, rows, columns, arena);
  ASSERT_TRUE(packed.has_value());
  EXPECT_EQ(packed->format(), format) << NameOf(dtype);
  std::vector<float> all(rows * columns);
  ASSERT_TRUE(Dequantize(dtype, data, all).has_value());
  std::vector<float> row(columns);
  for (uint32_t r = 0; r < rows; ++r) {
    packed->UnpackRow(r, row);
    float largest = 0;  // of the row; scales, which are rounded, are not larger
    for (uint32_t i = 0; i < columns; ++i) {
      largest = std::max(largest, std::abs(all[r * columns + i]));
    }
    const float off = largest * rounding + HalfAUnit(*packed, r);
    for (uint32_t i = 0; i < columns; ++i) {
      EXPECT_NEAR(row[i], all[r * columns + i], off) << NameOf(dtype) << " " << i;
      EXPECT_EQ(packed->Weight(r, i), row[i]);
    }
  }
}

TEST(Repack, UnpackRowEqualsDequantize) {
  for (const uint32_t rows : {1U, 15U, 16U, 17U, 40U}) {
    ExpectUnpacks(DType::kQ4_0, PanelFormat::kU4, rows, 1e-6F);
    ExpectUnpacks(DType::kQ4_1, PanelFormat::kU4Min, rows, 1e-6F);
    ExpectUnpacks(DType::kQ5_0, PanelFormat::kU5Min, rows, 1e-6F);
    ExpectUnpacks(DType::kQ5_1, PanelFormat::kU5Min, rows, 1e-6F);
    ExpectUnpacks(DType::kQ8_0, PanelFormat::kU8, rows, 1e-6F);
    ExpectUnpacks(DType::kIQ4_NL, PanelFormat::kIq4, rows, 1e-6F);
    ExpectUnpacks(DType::kMXFP4, PanelFormat::kE2m1, rows, 1e-6F);
    ExpectUnpacks(DType::kF16, PanelFormat::kF16, rows, 0);
    ExpectUnpacks(DType::kBF16, PanelFormat::kBF16, rows, 0);
    ExpectUnpacks(DType::kF32, PanelFormat::kF32, rows, 0);
  }
}

TEST(Repack, KTypesAreWithinTheRoundingOfTheirScales) {
  for (const uint32_t rows : {3U, 18U}) {
    ExpectUnpacks(DType::kQ2_K, PanelFormat::kU4Min2, rows, 0x1p-10F);
    ExpectUnpacks(DType::kQ3_K, PanelFormat::kU4Min2, rows, 0x1p-10F);
    ExpectUnpacks(DType::kQ4_K, PanelFormat::kU4Min, rows, 0x1p-10F);
    ExpectUnpacks(DType::kQ5_K, PanelFormat::kU5Min, rows, 0x1p-10F);
    ExpectUnpacks(DType::kQ6_K, PanelFormat::kU6Two, rows, 0x1p-10F);
    ExpectUnpacks(DType::kIQ4_XS, PanelFormat::kIq4, rows, 0x1p-10F);
  }
}

TEST(Repack, ScalesBeyondF16MakeTheWeightsF16) {
  Arena arena;
  auto data = RandomWeights(DType::kMXFP4, 1, 64, 3);
  data[0] = std::byte{100};  // 2^-28: the largest weights are still representable in F16
  const auto packed = PackedMatrix::Pack(DType::kMXFP4, data, 1, 64, arena);
  ASSERT_TRUE(packed.has_value());
  EXPECT_EQ(packed->format(), PanelFormat::kF16);
}

TEST(Repack, RefusesWrongSizes) {
  Arena arena;
  const std::vector<std::byte> data(100);
  EXPECT_EQ(PackedMatrix::Pack(DType::kQ8_0, data, 3, 32, arena).error().code, Code::kInvalid);
  EXPECT_FALSE(PackedMatrix::Pack(DType::kQ8_0, data, 1, 33, arena).has_value());
  EXPECT_FALSE(PackedMatrix::Pack(DType::kI8, data, 10, 10, arena).has_value());
}

TEST(Arena, AllocatesAlignedZeroedMemoryThatDoesNotOverlap) {
  Arena arena;
  std::vector<std::byte*> blocks;
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{100}, size_t{70} << 20, size_t{3}}) {
    std::byte* const block = arena.Allocate(bytes).value();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0U);
    EXPECT_EQ(block[0], std::byte{});
    EXPECT_EQ(block[bytes - 1], std::byte{});
    blocks.push_back(block);
  }
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i][0] = static_cast<std::byte>(i + 1);
  for (size_t i = 0; i < blocks.size(); ++i) EXPECT_EQ(blocks[i][0], static_cast<std::byte>(i + 1));
  EXPECT_GE(arena.mapped_bytes(), size_t{70} << 20);
}

}  // namespace
}  // namespace pie::cpu
