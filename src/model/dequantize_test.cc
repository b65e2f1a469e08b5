#include "model/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ranges>
#include <set>
#include <string>
#include <vector>

#include "model/half.h"

namespace pie {
namespace {

using nlohmann::json;

// Reads a file that tests/golden/make_quants.py wrote.
std::string ReadGolden(const char* name) {
  const auto folder = std::filesystem::path(__FILE__).parent_path() / "../../tests/golden";
  std::ifstream file(folder / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

DType ByName(std::string_view name) {
  const auto all = AllDTypes();
  const auto found = std::ranges::find(all, name, &DTypeInfo::name);
  if (found == all.end()) throw std::runtime_error(std::string(name));
  return found->dtype;
}

TEST(DequantizeTest, EqualsTheReferenceBitForBit) {
  const json index = json::parse(ReadGolden("quants.json"));
  const std::string data = ReadGolden("quants.bin");
  std::set<DType> compared;
  for (const json& c : index["cases"]) {
    const auto name = c["type"].get<std::string>();
    SCOPED_TRACE(name);
    const DTypeInfo& info = InfoOf(ByName(name));
    const size_t at = c["at"].get<size_t>();
    const size_t blocks = c["blocks"].get<size_t>();
    const size_t bytes = blocks * info.block_bytes;
    std::vector<float> expected(blocks * info.block_elements);
    ASSERT_LE(at + bytes + expected.size() * sizeof(float), data.size());
    std::memcpy(expected.data(), data.data() + at + bytes, expected.size() * sizeof(float));

    std::vector<float> actual(expected.size());
    const auto status =
        Dequantize(info.dtype, std::as_bytes(std::span(data).subspan(at, bytes)), actual);
    ASSERT_TRUE(status) << status.error().text;
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(actual[i]), std::bit_cast<uint32_t>(expected[i]))
          << "number " << i << ": " << actual[i] << ", expected " << expected[i];
    }
    compared.insert(info.dtype);
  }
  for (const DTypeInfo& info : AllDTypes()) {
    if (info.dtype == DType::kF8E4M3) continue;  // fp8_test.cc has its numbers
    EXPECT_EQ(CanDequantize(info.dtype), compared.contains(info.dtype)) << info.name;
  }
}

TEST(DTypeTest, BlockSizesAreThoseOfTheReference) {
  const json index = json::parse(ReadGolden("quants.json"));
  int known = 0;
  for (const auto& [name, numbers] : index["sizes"].items()) {
    const auto dtype = DTypeFromGguf(numbers[0].get<uint32_t>());
    if (name == "Q8_1" || name == "Q8_K") {  // types of intermediate sums, never in files
      EXPECT_FALSE(dtype) << name;
      continue;
    }
    ASSERT_TRUE(dtype) << name;
    EXPECT_EQ(NameOf(*dtype), name);
    EXPECT_EQ(InfoOf(*dtype).block_elements, numbers[1].get<uint32_t>()) << name;
    EXPECT_EQ(InfoOf(*dtype).block_bytes, numbers[2].get<uint32_t>()) << name;
    ++known;
  }
  EXPECT_EQ(known + 2, static_cast<int>(AllDTypes().size()));  // GGUF has no U8 and no F8_E4M3
}

TEST(DTypeTest, UnknownNumbersAndNamesAreRefused) {
  for (uint32_t number : {4U, 5U, 31U, 36U, 1000U, 0xFFFFFFFFU}) {
    EXPECT_FALSE(DTypeFromGguf(number)) << number;
  }
  EXPECT_EQ(DTypeFromSafetensors("BF16"), DType::kBF16);
  EXPECT_EQ(DTypeFromSafetensors("F8_E4M3"), DType::kF8E4M3);
  EXPECT_FALSE(DTypeFromSafetensors("F8_E5M2"));
  EXPECT_FALSE(DTypeFromSafetensors("Q4_K"));
}

TEST(DTypeTest, ComputesTheSizesOfTensors) {
  const auto bytes = [](DType dtype, std::vector<uint64_t> shape) {
    return TensorBytes(dtype, shape).value_or(0);
  };
  EXPECT_EQ(bytes(DType::kF32, {}), 4U);
  EXPECT_EQ(bytes(DType::kF16, {3, 5}), 30U);
  EXPECT_EQ(bytes(DType::kQ4_K, {2, 512}), 4U * 144);
  EXPECT_EQ(bytes(DType::kQ4_K, {512, 2}), 0U);  // rows are not whole blocks
  EXPECT_EQ(bytes(DType::kF32, {0}), 0U);
  EXPECT_EQ(bytes(DType::kF32, {4, 0, 4}), 0U);
  EXPECT_EQ(bytes(DType::kF32, {1ULL << 32, 1ULL << 32}), 0U);
  EXPECT_EQ(bytes(DType::kI8, {1ULL << 62, 3}), 0U);
}

TEST(DequantizeTest, WrongSizesAreErrors) {
  std::vector<std::byte> data(36);
  std::vector<float> out(64);
  EXPECT_TRUE(Dequantize(DType::kQ4_0, data, out));
  EXPECT_FALSE(Dequantize(DType::kQ4_0, std::span(data).first(35), out));
  EXPECT_FALSE(Dequantize(DType::kQ4_0, data, std::span(out).first(63)));
  const auto unknown = Dequantize(DType::kIQ1_S, data, out);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, Code::kUnavailable);
}

TEST(HalfTest, EveryHalfConvertsExactly) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float value = HalfToFloat(static_cast<uint16_t>(bits));
    const int exponent = static_cast<int>((bits >> 10) & 0x1F);
    const double fraction = bits & 0x3FF;
    if (exponent == 0x1F) {
      EXPECT_TRUE(fraction == 0 ? std::isinf(value) : std::isnan(value)) << bits;
    } else {
      const double magnitude =
          exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
      EXPECT_EQ(std::abs(static_cast<double>(value)), magnitude) << bits;
    }
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
  }
  EXPECT_EQ(BFloatToFloat(0x3F80), 1.0F);
  EXPECT_EQ(BFloatToFloat(0xC049), -3.140625F);
}

}  // namespace
}  // namespace pie
