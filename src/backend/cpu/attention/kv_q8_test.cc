#include "backend/cpu/attention/kv_q8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/attention/kv_layer.h"
#include "backend/cpu/machine/simd.h"
#include "backend/cpu/testing.h"
#include "model/half.h"

namespace pie::cpu {
namespace {

struct Packed {
  std::vector<int8_t> bytes;
  std::vector<uint16_t> scales;
  bool operator==(const Packed&) const = default;
};

Packed Quantize(CpuLevel level, const std::vector<float>& x, size_t stride = 1) {
  const auto n = static_cast<uint32_t>(x.size());
  Packed packed{std::vector<int8_t>(n * stride, 99),
                std::vector<uint16_t>(KvScales(n) * stride, 99)};
  QuantizeKv(level, x.data(), n, packed.bytes.data(), stride, packed.scales.data(), stride);
  return packed;
}

class KvQ8 : public AtLevel {};
PIE_TEST_AT_ALL_LEVELS(KvQ8);

TEST_P(KvQ8, NumbersAreWithinHalfAScale) {
  for (const uint32_t n : {1U, 7U, 31U, 32U, 33U, 64U, 80U, 256U}) {
    for (const float range : {1e-3F, 1.0F, 300.0F}) {
      const auto x = RandomFloats(n, n, range);
      const Packed packed = Quantize(GetParam(), x);
      std::vector<uint16_t> out(n);
      for (uint32_t at = 0; at < n; at += kKvQuantBlock) {
        const uint32_t count = std::min(kKvQuantBlock, n - at);
        const float scale = HalfToFloat(packed.scales[at / kKvQuantBlock]);
        UnpackKv(GetParam(), packed.bytes.data() + at, scale, count, out.data() + at);
        for (uint32_t i = at; i < at + count; ++i) {
          EXPECT_EQ(out[i], FloatToHalf(static_cast<float>(packed.bytes[i]) * scale));
          // Half a scale, plus a margin because the scale itself is rounded.
          EXPECT_NEAR(HalfToFloat(out[i]), x[i], 0.51F * scale + range * 5e-4F);
        }
        const std::vector<float> scales(count, scale);
        std::vector<uint16_t> each(count);
        UnpackKv(GetParam(), packed.bytes.data() + at, scales.data(), count, each.data());
        EXPECT_TRUE(std::equal(each.begin(), each.end(), out.begin() + at));
      }
    }
  }
}

TEST_P(KvQ8, MatchesTheReference) {
  for (const uint32_t n : {5U, 32U, 64U, 100U}) {
    for (const size_t stride : {1U, 16U}) {
      const auto x = RandomFloats(n, n + stride, 3);
      EXPECT_EQ(Quantize(GetParam(), x, stride), Quantize(CpuLevel::kScalar, x, stride));
    }
  }
}

TEST_P(KvQ8, HandlesExtremeNumbers) {
  std::vector<float> x(64);
  const Packed zeros = Quantize(GetParam(), x);
  for (const int8_t byte : zeros.bytes) EXPECT_EQ(byte, 0);
  x = {NAN, 1, -2, 1e-30F, -INFINITY};
  x.resize(64, 1e30F);
  EXPECT_EQ(Quantize(GetParam(), x), Quantize(CpuLevel::kScalar, x));
  // A block with numbers beyond the range of F16 gets a scale that is not finite.
  EXPECT_FALSE(std::isfinite(HalfToFloat(Quantize(GetParam(), x).scales[1])));
}

TEST(KvLayer, BytesTakeLittleMoreThanHalfTheMemory) {
  KvLayer kv{.kv_heads = 3, .head_dim = 64, .page_tokens = 16};
  EXPECT_EQ(kv.PageBytes(), 2 * 3 * 64 * 16 * 2U);
  const size_t halves = kv.PageBytes();
  kv.type = KvType::kQ8;
  EXPECT_EQ(kv.PageBytes() * 16, halves * 9);
}

// Tests odd numbers of heads, tokens and dimensions: no write changes another slot.
TEST(KvLayer, SlotsDoNotOverlap) {
  for (const KvType type : {KvType::kF16, KvType::kQ8}) {
    KvLayer kv{.kv_heads = 3, .head_dim = 7, .page_tokens = 5, .type = type};
    kv.page_stride = kv.PageBytes();
    std::vector<uint16_t> memory(kv.PageBytes() + 1, 0x1234);
    kv.data = reinterpret_cast<std::byte*>(memory.data());
    const auto keys = RandomFloats(size_t{2} * 5 * 21, 1);
    const auto values = RandomFloats(size_t{2} * 5 * 21, 2);
    const auto write = [&](CpuLevel level, uint32_t i) {
      WriteKv(level, kv, {i / 5}, i % 5, &keys[size_t{i} * 21], &values[size_t{i} * 21]);
    };
    for (uint32_t i = 0; i < 10; ++i) write(CpuLevel::kScalar, i);
    EXPECT_EQ(memory.back(), 0x1234);
    const auto once = memory;
    // in another order, with the same result
    for (uint32_t i = 10; i-- > 0;) write(DetectCpuLevel(), i);
    EXPECT_EQ(memory, once);
  }
}

}  // namespace
}  // namespace pie::cpu
