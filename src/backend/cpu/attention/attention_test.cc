#include "backend/cpu/attention/attention.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/machine/simd.h"
#include "backend/cpu/testing.h"
#include "model/half.h"

namespace pie::cpu {
namespace {

// The variant of the computation under test.
struct Kind {
  CpuLevel level;
  bool bf16;
  KvType kv = KvType::kF16;
};

struct Shape {
  uint32_t heads, kv_heads, head_dim, page_tokens;
};

// A sequence of `tokens` keys and values in scattered pages, with the last `rows` of them new.
class Case {
 public:
  Case(const Kind& kind, const Shape& shape, uint32_t tokens, uint32_t rows, uint64_t seed)
      : shape_(shape), tokens_(tokens), rows_(rows) {
    const uint32_t pages = (tokens + shape.page_tokens - 1) / shape.page_tokens;
    kv_ = {.kv_heads = shape.kv_heads,
           .head_dim = shape.head_dim,
           .page_tokens = shape.page_tokens,
           .type = kind.kv};
    kv_.page_stride = kv_.PageBytes() + 12;
    // Memory that was not written is NaN, so that reading it into a result fails the test.
    memory_.assign((pages * 2 + 1) * kv_.page_stride / 2, 0x7FFF);
    kv_.data = reinterpret_cast<std::byte*>(memory_.data());
    for (uint32_t i = 0; i < pages; ++i) pages_.push_back({(pages - i) * 2 - i % 2});
    const size_t numbers = size_t{shape.kv_heads} * shape.head_dim;
    keys_ = RandomFloats(tokens * numbers, seed, 2);
    values_ = RandomFloats(tokens * numbers, seed + 1, 2);
    for (uint32_t t = 0; t < tokens; ++t) {
      WriteKv(DetectCpuLevel(), kv_, pages_[t / shape.page_tokens], t % shape.page_tokens,
              keys_.data() + t * numbers, values_.data() + t * numbers);
    }
    q_ = RandomFloats(rows * QStride(), seed + 2, 2);
    for (std::vector<float>* numbers_of : {&keys_, &values_}) Store(kind, *numbers_of);
  }

  size_t QStride() const { return size_t{shape_.heads} * shape_.head_dim + 3; }
  AttentionShape shape(const Kind& kind) const {
    AttentionShape shape = extras;
    shape.bf16 = kind.bf16;
    shape.heads = shape_.heads;
    shape.scale = 1 / std::sqrt(static_cast<float>(shape_.head_dim));
    shape.q_stride = shape.out_stride = QStride();
    return shape;
  }
  AttentionMember Member(float* out, const std::vector<uint64_t>* mask, uint32_t first_row = 0,
                         uint32_t rows = 0) const {
    AttentionMember member{.q = q_.data() + first_row * QStride(),
                           .out = out,
                           .rows = rows == 0 ? rows_ : rows,
                           .kv_tokens = tokens_ - rows_ + first_row,
                           .pages = pages_};
    if (mask != nullptr) {
      member.mask_words = mask->size() / rows_;
      member.mask = mask->data() + first_row * member.mask_words;
    }
    return member;
  }
  std::vector<float> Run(const Kind& kind, ThreadPool& pool,
                         const std::vector<uint64_t>* mask = nullptr) const {
    std::vector<float> out(rows_ * QStride(), 77);
    const AttentionMember member = Member(out.data(), mask);
    Attention(kind.level, pool).Run(kv_, shape(kind), {&member, 1});
    return out;
  }

  // Softmax in double over the keys that the row sees: [head_dim] of one head.
  std::vector<double> Expected(const Kind& kind, uint32_t row, uint32_t head,
                               const std::vector<uint64_t>* mask) const {
    const float scale = shape(kind).scale;
    const uint32_t kv_head = head / (shape_.heads / shape_.kv_heads);
    const size_t words = mask == nullptr ? 0 : mask->size() / rows_;
    double total = extras.sinks == nullptr ? 0 : std::exp(double{extras.sinks[head]});
    std::vector<double> values(shape_.head_dim);
    const uint32_t own = tokens_ - rows_ + row;
    for (uint32_t t = 0; t <= own; ++t) {
      if (extras.window != 0 && own - t >= extras.window) continue;
      if (mask != nullptr &&
          (t / 64 >= words || ((*mask)[row * words + t / 64] >> (t % 64) & 1) == 0)) {
        continue;
      }
      const size_t at = (size_t{t} * shape_.kv_heads + kv_head) * shape_.head_dim;
      const float* const q = q_.data() + row * QStride() + size_t{head} * shape_.head_dim;
      double score = 0;
      for (uint32_t d = 0; d < shape_.head_dim; ++d) {
        score += double{keys_[at + d]} * (kind.bf16 ? Bf16(q[d] * scale) : q[d] * scale);
      }
      if (extras.softcap != 0) score = extras.softcap * std::tanh(score / extras.softcap);
      const double weight = std::exp(score);
      total += weight;
      for (uint32_t d = 0; d < shape_.head_dim; ++d) values[d] += weight * values_[at + d];
    }
    for (double& value : values) value = total == 0 ? 0 : value / total;
    return values;
  }

  void Check(const Kind& kind, const std::vector<float>& out,
             const std::vector<uint64_t>* mask) const {
    // In bfloat16, weights have 8 bits, and values are up to 2.
    const double near = kind.bf16 ? 2.0 / 256 : 2e-5;
    for (uint32_t row = 0; row < rows_; ++row) {
      for (uint32_t head = 0; head < shape_.heads; ++head) {
        const auto expected = Expected(kind, row, head, mask);
        for (uint32_t d = 0; d < shape_.head_dim; ++d) {
          ASSERT_NEAR(out[row * QStride() + head * shape_.head_dim + d], expected[d], near)
              << "row " << row << " head " << head << " dim " << d << " of " << tokens_ << " × "
              << rows_ << " in pages of " << shape_.page_tokens;
        }
      }
      for (size_t i = QStride() - 3; i < QStride(); ++i) ASSERT_EQ(out[row * QStride() + i], 77);
    }
  }

  // Makes the keys and values of the first tokens infinite.
  void Forget(uint32_t tokens) {
    const std::vector<float> infinite(size_t{shape_.kv_heads} * shape_.head_dim, INFINITY);
    for (uint32_t t = 0; t < tokens; ++t) {
      WriteKv(CpuLevel::kScalar, kv_, pages_[t / shape_.page_tokens], t % shape_.page_tokens,
              infinite.data(), infinite.data());
    }
  }

  const KvLayer& kv() const { return kv_; }

  AttentionShape extras;  // window, softcap and sinks

 private:
  // Rounds numbers as storing them in a page and multiplying them do.
  void Store(const Kind& kind, std::vector<float>& numbers) const {
    for (size_t head = 0; head < numbers.size(); head += shape_.head_dim) {
      for (uint32_t from = 0; from < shape_.head_dim; from += 16) {
        const std::span block(&numbers[head + from], std::min(16U, shape_.head_dim - from));
        float greatest = 0;
        for (const float x : block) greatest = std::max(greatest, std::abs(x));
        const float scale = Half(greatest / 127);
        for (float& x : block) {
          if (kind.kv == KvType::kQ8) x = std::nearbyint(x * (1 / scale)) * scale;
          // Bytes are rounded only once.
          if (kind.kv == KvType::kF16 || !kind.bf16) x = Half(x);
          if (kind.bf16) x = Bf16(x);
        }
      }
    }
  }
  static float Half(float x) { return HalfToFloat(FloatToHalf(x)); }
  static float Bf16(float x) {
    const auto bits = std::bit_cast<uint32_t>(x);
    return std::bit_cast<float>((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000);
  }

  Shape shape_;
  uint32_t tokens_, rows_;
  KvLayer kv_;
  std::vector<uint16_t> memory_;
  std::vector<PageId> pages_;
  std::vector<float> keys_, values_, q_;
};

class AttentionAtLevel : public testing::TestWithParam<Kind> {
 protected:
  ThreadPool pool_;
};

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds;
  for (const KvType kv : {KvType::kF16, KvType::kQ8}) {
    for (const CpuLevel level : SupportedCpuLevels()) kinds.push_back({level, false, kv});
    if (DetectCpuLevel() >= CpuLevel::kAvx512Bf16) {
      kinds.push_back({CpuLevel::kAvx512Bf16, true, kv});
    }
  }
  return kinds;
}

INSTANTIATE_TEST_SUITE_P(Levels, AttentionAtLevel, testing::ValuesIn(Kinds()),
                         [](const auto& param) {
                           std::string name(NameOf(param.param.level));
                           std::erase(name, '-');
                           return name + (param.param.bf16 ? "_bf16" : "") +
                                  (param.param.kv == KvType::kQ8 ? "_q8" : "");
                         });

TEST_P(AttentionAtLevel, IsASoftmaxOverAllEarlierKeys) {
  for (const uint32_t page_tokens : {1U, 5U, 8U, 16U, 24U, 64U}) {
    for (const auto& [tokens, rows] :
         {std::pair{1U, 1U}, {17U, 1U}, {65U, 2U}, {40U, 40U}, {130U, 7U}}) {
      const Case c(GetParam(), {3, 1, 24, page_tokens}, tokens, rows, tokens);
      c.Check(GetParam(), c.Run(GetParam(), pool_), nullptr);
    }
  }
}

TEST_P(AttentionAtLevel, SupportsHeadsOfAllSizesAndGroups) {
  for (const Shape& shape : {Shape{9, 3, 64, 16}, Shape{2, 2, 80, 16}, Shape{20, 1, 16, 16},
                             Shape{4, 2, 128, 16}, Shape{1, 1, 7, 16}, Shape{4, 4, 256, 16}}) {
    const Case c(GetParam(), shape, 70, 3, shape.head_dim);
    c.Check(GetParam(), c.Run(GetParam(), pool_), nullptr);
  }
}

TEST_P(AttentionAtLevel, SeesOnlyKeysOfTheMask) {
  for (const uint32_t page_tokens : {1U, 16U}) {
    const uint32_t tokens = 200;
    const uint32_t rows = 6;
    const Case c(GetParam(), {6, 2, 20, page_tokens}, tokens, rows, 5);
    std::vector<uint64_t> mask(rows * 3);  // words for 192 keys: the last 8 keys are not seen
    for (size_t i = 0; i < mask.size(); ++i) mask[i] = CounterRng{6}.Bits(i);
    mask[0] = mask[1] = 0;            // leading keys masked
    mask[3] = mask[4] = mask[5] = 0;  // row 1 sees nothing
    mask[6] = ~uint64_t{0};
    const auto out = c.Run(GetParam(), pool_, &mask);
    c.Check(GetParam(), out, &mask);
    for (uint32_t i = 0; i < 120; ++i) EXPECT_EQ(out[c.QStride() + i], 0);
  }
}

// Whole groups of sixteen keys are masked between visible ones.
TEST_P(AttentionAtLevel, MasksMayHaveGaps) {
  for (const uint32_t rows : {1U, 6U}) {
    const Case c(GetParam(), {3, 1, 32, 16}, 200, rows, 5);
    std::vector<uint64_t> mask(rows * size_t{4});
    for (uint32_t row = 0; row < rows; ++row) {
      mask[row * 4] = 0xF0000000'00000001;
      mask[row * 4 + 1] = row == 3 ? 0 : 0x00000000'00FF0000;
      mask[row * 4 + 2] = 0x0000FFFF'00000000 >> row;
    }
    c.Check(GetParam(), c.Run(GetParam(), pool_, &mask), &mask);
  }
}

TEST_P(AttentionAtLevel, AWindowHidesDistantKeys) {
  for (const uint32_t window : {1U, 5U, 64U, 100U, 513U, 5000U}) {
    for (const auto& [tokens, rows] : {std::pair{40U, 40U}, {130U, 7U}, {1200U, 2U}}) {
      Case c(GetParam(), {4, 2, 16, 16}, tokens, rows, window);
      c.extras.window = window;
      c.Check(GetParam(), c.Run(GetParam(), pool_), nullptr);
    }
  }
}

TEST_P(AttentionAtLevel, AWindowAndAMaskBothApply) {
  Case c(GetParam(), {6, 2, 20, 16}, 200, 6, 5);
  c.extras.window = 70;
  std::vector<uint64_t> mask(6 * 4);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = CounterRng{6}.Bits(i);
  mask[6] = mask[7] = 0;  // row 1 sees nothing: its whole window is masked
  c.Check(GetParam(), c.Run(GetParam(), pool_, &mask), &mask);
}

TEST_P(AttentionAtLevel, PagesBeforeTheWindowAreNotRead) {
  Case c(GetParam(), {3, 1, 16, 16}, 1700, 1, 8);
  c.extras.window = 33;
  const auto expected = c.Run(GetParam(), pool_);
  c.Forget(1700 - 33 - 64);
  EXPECT_EQ(c.Run(GetParam(), pool_), expected);
}

TEST_P(AttentionAtLevel, ScoresAreCapped) {
  Case c(GetParam(), {4, 2, 24, 5}, 130, 7, 11);
  c.extras.softcap = 0.7F;
  c.Check(GetParam(), c.Run(GetParam(), pool_), nullptr);
}

TEST_P(AttentionAtLevel, SinksTakeTheirShare) {
  const std::vector<float> sinks = {-3, 0, 2.5F, 30, -50, 1};
  for (const uint32_t tokens : {70U, 1300U}) {
    Case c(GetParam(), {6, 2, 16, 16}, tokens, 3, 12);
    c.extras.sinks = sinks.data();
    c.extras.window = 40;
    c.extras.softcap = 5;
    c.Check(GetParam(), c.Run(GetParam(), pool_), nullptr);
    std::vector<uint64_t> nothing(3 * 32);
    for (const float value : c.Run(GetParam(), pool_, &nothing)) {
      EXPECT_TRUE(value == 0 || value == 77);
    }
  }
}

// Eight members with one row each over the same pages get the same bits as each gets alone.
TEST_P(AttentionAtLevel, SharingPrefixesDoesNotChangeResults) {
  const std::vector<float> sinks = {-3, 0, 2.5F, 30, -50, 1};
  const uint32_t rows = 8;
  for (const uint32_t tokens : {30U, 100U, 600U, 1300U}) {
    for (const uint32_t page_tokens : {1U, 16U, 64U}) {
      for (const int variant : {0, 1, 2, 3}) {
        Case c(GetParam(), {6, 2, 20, page_tokens}, tokens, rows, tokens);
        if (variant == 1) c.extras.sinks = sinks.data();
        if (variant == 2) c.extras.window = 70;
        std::vector<uint64_t> mask((tokens + 63) / 64 * rows);
        for (size_t i = 0; i < mask.size(); ++i) mask[i] = CounterRng{6}.Bits(i);
        const auto* const seen = variant == 3 ? &mask : nullptr;
        const auto expected = c.Run(GetParam(), pool_, seen);
        std::vector<float> out(rows * c.QStride(), 77);
        std::vector<AttentionMember> members;
        for (uint32_t row = 0; row < rows; ++row) {
          members.push_back(c.Member(out.data() + row * c.QStride(), seen, row, 1));
        }
        Attention attention(GetParam().level, pool_);
        attention.Share(members, page_tokens, 3);
        attention.Run(c.kv(), c.shape(GetParam()), members);
        EXPECT_EQ(out, expected) << tokens << " tokens, variant " << variant;
      }
    }
  }
}

TEST_P(AttentionAtLevel, LongSequencesAreDividedAndMerged) {
  const Case one(GetParam(), {3, 1, 16, 16}, 1700, 1, 8);  // one tile: spans run as separate tasks
  one.Check(GetParam(), one.Run(GetParam(), pool_), nullptr);
  if (GetParam().level == CpuLevel::kScalar) return;
  const Case many(GetParam(), {12, 4, 16, 16}, 1100, 30, 9);  // many tiles: spans run in order
  many.Check(GetParam(), many.Run(GetParam(), pool_), nullptr);
}

TEST_P(AttentionAtLevel, ARowDependsNeitherOnTheBatchNorOnThreads) {
  Case c(GetParam(), {6, 2, 32, 16}, 1200, 21, 3);
  c.extras.window = 700;
  const auto together = c.Run(GetParam(), pool_);
  ThreadPool alone(1);
  EXPECT_EQ(together, c.Run(GetParam(), alone));
  // Computes the same rows one by one, as members of one batch.
  std::vector<float> out(together.size(), 77);
  std::vector<AttentionMember> members;
  for (uint32_t row = 0; row < 21; ++row) {
    members.push_back(c.Member(out.data() + row * c.QStride(), nullptr, row, 1));
  }
  Attention(GetParam().level, pool_).Run(c.kv(), c.shape(GetParam()), members);
  EXPECT_EQ(std::memcmp(out.data(), together.data(), out.size() * 4), 0);
}

TEST_P(AttentionAtLevel, LargeScoresDoNotOverflow) {
  const Case c(GetParam(), {1, 1, 16, 16}, 100, 1, 4);
  std::vector<float> out(c.QStride());
  const AttentionMember member = c.Member(out.data(), nullptr);
  AttentionShape shape = c.shape(GetParam());
  shape.scale = 300;  // scores of thousands
  Attention(GetParam().level, pool_).Run(c.kv(), shape, {&member, 1});
  for (uint32_t d = 0; d < 16; ++d) EXPECT_TRUE(std::isfinite(out[d]) && std::abs(out[d]) <= 2);
}

TEST(Attention, AnEmptyBatchDoesNothing) {
  const Case c({DetectCpuLevel(), false}, {1, 1, 16, 16}, 4, 1, 4);
  ThreadPool pool;
  Attention(DetectCpuLevel(), pool).Run(c.kv(), c.shape({DetectCpuLevel(), false}), {});
}

}  // namespace
}  // namespace pie::cpu
