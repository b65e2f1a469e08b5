#include "backend/cpu/repack.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "backend/cpu/simd.h"
#include "backend/cpu/testing.h"
#include "model/dequantize.h"

namespace pie::cpu {
namespace {

std::vector<std::byte> RandomBytes(size_t count, uint64_t seed) {
  std::vector<std::byte> data(count);
  // Exponents that are all ones would be infinities: bit 6 of every byte is left out.
  for (size_t i = 0; i < count; ++i)
    data[i] = static_cast<std::byte>(CounterRng{seed}.Bits(i) & 0xBF);
  return data;
}

TEST(Repack, UnpackRowGivesWhatDequantizeGives) {
  Arena arena;
  for (const DType dtype :
       {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kF16, DType::kBF16, DType::kF32}) {
    for (const uint32_t rows : {1U, 15U, 16U, 17U, 40U}) {
      const uint32_t columns = 96;
      const uint64_t shape[] = {rows, columns};
      const auto data = RandomBytes(TensorBytes(dtype, shape).value(), rows);
      const auto packed = PackedMatrix::Pack(dtype, data, rows, columns, arena);
      ASSERT_TRUE(packed.has_value());
      EXPECT_EQ(packed->dtype(), dtype);
      std::vector<float> all(rows * columns);
      ASSERT_TRUE(Dequantize(dtype, data, all).has_value());
      std::vector<float> row(columns);
      for (uint32_t r = 0; r < rows; ++r) {
        packed->UnpackRow(r, row);
        for (uint32_t i = 0; i < columns; ++i) {
          EXPECT_FLOAT_EQ(row[i], all[r * columns + i]) << NameOf(dtype);
        }
      }
    }
  }
}

TEST(Repack, OtherTypesBecomeF16) {
  Arena arena;
  const uint32_t rows = 5;
  const uint32_t columns = 512;
  for (const DType dtype : {DType::kQ4_K, DType::kQ6_K, DType::kQ5_0}) {
    const uint64_t shape[] = {rows, columns};
    const auto data = RandomBytes(TensorBytes(dtype, shape).value(), 3);
    const auto packed = PackedMatrix::Pack(dtype, data, rows, columns, arena);
    ASSERT_TRUE(packed.has_value());
    EXPECT_EQ(packed->dtype(), DType::kF16);
    std::vector<float> all(rows * columns);
    ASSERT_TRUE(Dequantize(dtype, data, all).has_value());
    std::vector<float> row(columns);
    for (uint32_t r = 0; r < rows; ++r) {
      packed->UnpackRow(r, row);
      for (uint32_t i = 0; i < columns; ++i) {
        const float value = all[r * columns + i];
        EXPECT_NEAR(row[i], value, std::abs(value) * 0x1p-11F + 0x1p-25F) << NameOf(dtype);
      }
    }
  }
}

TEST(Repack, RefusesWhatDoesNotFit) {
  Arena arena;
  const std::vector<std::byte> data(100);
  EXPECT_EQ(PackedMatrix::Pack(DType::kQ8_0, data, 3, 32, arena).error().code, Code::kInvalid);
  EXPECT_FALSE(PackedMatrix::Pack(DType::kQ8_0, data, 1, 33, arena).has_value());
  EXPECT_FALSE(PackedMatrix::Pack(DType::kI8, data, 10, 10, arena).has_value());
}

TEST(Arena, GivesAlignedZeroedMemoryThatDoesNotOverlap) {
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
