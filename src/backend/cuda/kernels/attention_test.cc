// Attention on the device against a plain oracle, with tiles as the step builder makes them.
#include "backend/cuda/kernels/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "backend/cuda/kernels/testing.h"
#include "backend/cuda/step_builder.h"
#include "model/fp8.h"

namespace pie::cuda {
namespace {

struct Case {
  uint32_t heads = 8;
  uint32_t kv_heads = 2;
  uint32_t dim = 64;
  uint32_t page_tokens = 16;
  uint32_t window = 0;
  float softcap = 0;
  bool sinks = false;
  bool masks = false;
  uint32_t shared_pages = 0;  // pages at the front that all members have in common
  std::vector<std::pair<uint32_t, uint32_t>> members = {};  // tokens in the pages, new rows
  bool fixed_order = false;
  bool fp8 = false;  // keys and values
  // Powers of two that multiply the lines in fp8, and one that divides every second value.
  int key_exponent = 0;
  int value_exponent = 0;
  int value_spread = 0;
  float query_range = 1;
  uint32_t processors = 132;
};

class AttentionTest : public OnDevice {
 protected:
  // Pages that hold `kv`. The numbers of `kv` are replaced by what fp8 makes of them.
  static std::vector<std::byte> PagesOf(const KvShape& shape, const Case& c,
                                        std::vector<uint16_t>& kv) {
    const size_t pages = kv.size() / (shape.lines() * shape.head_stride);
    std::vector<std::byte> bytes(pages * shape.page_bytes, std::byte{0x7F});
    for (size_t i = 0; i < pages * shape.lines(); ++i) {
      std::byte* const layer =
          bytes.data() + i / shape.lines() * shape.page_bytes + shape.layer_offset;
      const size_t line = i % shape.lines();
      std::byte* const to = layer + line * shape.line_bytes();
      uint16_t* const numbers = &kv[i * shape.head_stride];
      if (!shape.fp8) {
        std::memcpy(to, numbers, shape.line_bytes());
        continue;
      }
      const int exponent = static_cast<int>(i % 7) - 9;
      const int shift = line < shape.lines() / 2
                            ? c.key_exponent
                            : c.value_exponent - static_cast<int>(i % 2) * c.value_spread;
      layer[shape.scales_at() + line] = static_cast<std::byte>(247 + exponent + shift);
      std::fill_n(to + shape.head_stride, shape.line_bytes() - shape.head_stride, std::byte{0});
      for (uint32_t j = 0; j < shape.head_stride; ++j) {
        const uint8_t bits = FloatToE4m3(std::ldexp(Float(numbers[j]), -exponent));
        numbers[j] = Rounded(std::ldexp(E4m3ToFloat(bits), exponent + shift));
        constexpr uint32_t kOrder[] = {0, 2, 1, 3};
        to[j / 4 * 4 + kOrder[j % 4]] = static_cast<std::byte>(bits);
      }
    }
    return bytes;
  }

  // Returns ‖device − oracle‖ / ‖oracle‖.
  double Run(const Case& c) {
    Batch batch;
    std::vector<std::vector<Brle>> masks(c.members.size());
    uint32_t next_page = c.shared_pages;
    for (size_t m = 0; m < c.members.size(); ++m) {
      const auto [kv, rows] = c.members[m];
      Batch::Member member{.first_row = static_cast<uint32_t>(batch.tokens.size()),
                           .rows = rows,
                           .first_page = static_cast<uint32_t>(batch.pages.size()),
                           .pages = (kv + rows + c.page_tokens - 1) / c.page_tokens,
                           .kv_tokens = kv};
      for (uint32_t p = 0; p < member.pages; ++p) {
        batch.pages.push_back({p < c.shared_pages ? p : next_page++});
      }
      for (uint32_t i = 0; i < rows; ++i) {
        batch.tokens.push_back(0);
        batch.positions.push_back(kv + i);
        masks[m].push_back({i % 3, 5, kv / 3, kv, 1, 100'000});
      }
      if (c.masks) member.attention = &masks[m];
      batch.members.push_back(member);
    }
    StepBuilder builder({.page_tokens = c.page_tokens,
                         .vocab = 100,
                         .group = c.heads / c.kv_heads,
                         .kv_heads = c.kv_heads,
                         .large_lines = LargeTileLines(c.dim),
                         .processors = c.processors,
                         .max_parts = 4096,
                         .max_members = 256});
    StepPlan plan;
    builder.Build(batch, 1, plan);

    const size_t line = size_t{c.page_tokens} * c.dim;
    const size_t page = 2 * c.kv_heads * line;
    auto kv = RandomBFloats(next_page * page, 1);
    KvShape shape{
        .page_tokens = c.page_tokens, .kv_heads = c.kv_heads, .head_stride = c.dim, .fp8 = c.fp8};
    shape.layer_offset = shape.line_bytes();  // not the first layer
    shape.page_bytes = shape.layer_bytes() + 2 * shape.line_bytes();
    for (const Batch::Member& member : batch.members) {  // what is not written yet is no number
      const uint32_t end = (member.kv_tokens + member.rows) % c.page_tokens;
      if (end == 0) continue;
      const size_t last = batch.pages[member.first_page + member.pages - 1].value * page;
      for (size_t at = last; at < last + page; at += line) {
        std::fill_n(kv.begin() + static_cast<ptrdiff_t>(at + size_t{end} * c.dim),
                    (c.page_tokens - end) * c.dim, uint16_t{0x7FC0});
      }
    }
    const DeviceArray device_kv(PagesOf(shape, c, kv), stream_);
    shape.data = device_kv.data();
    MatrixMap lines;
    const bool in_boxes = DescribeLines(shape, next_page, &lines);
    const auto q = RandomBFloats(size_t{plan.rows} * c.heads * c.dim, 2, c.query_range);
    const auto sinks = RandomFloats(c.heads, 3);
    const float scale = 2 / std::sqrt(static_cast<float>(c.dim));
    const DeviceArray device_q(q, stream_);
    const DeviceArray device_sinks(sinks, stream_);
    const DeviceArray step(plan.bytes, stream_);
    const DeviceArray out(std::vector<uint16_t>(q.size(), 0x7FC0),
                          stream_);  // NaN
    const DeviceArray parts(std::vector<float>(size_t{4096} * c.heads * c.dim, NAN), stream_);
    const DeviceArray logs(std::vector<float>(size_t{4096} * c.heads, NAN), stream_);
    const Attention attention{.step = reinterpret_cast<const StepHeader*>(step.data()),
                              .kv = shape,
                              .q = device_q.data(),
                              .out = out.data(),
                              .heads = c.heads,
                              .scale = scale,
                              .softcap = c.softcap,
                              .window = c.window,
                              .sinks = c.sinks ? device_sinks.data() : nullptr,
                              .parts = parts.data(),
                              .part_logs = logs.data(),
                              .kv_lines = in_boxes ? &lines : nullptr,
                              .fixed_order = c.fixed_order};
    const auto processors = static_cast<int>(c.processors);
    RunSmallTiles(attention, processors, stream_);
    RunLargeTiles(attention, processors, stream_);
    RunMergeParts(attention, plan.rows, stream_);
    std::vector<float> got;
    for (const uint16_t value : out.Read()) got.push_back(Float(value));

    std::vector<float> expected(q.size());
    for (const Batch::Member& member : batch.members) {
      for (uint32_t i = 0; i < member.rows; ++i) {
        for (uint32_t head = 0; head < c.heads; ++head) {
          const uint32_t kv_head = head / (c.heads / c.kv_heads);
          const size_t at = (size_t{member.first_row + i} * c.heads + head) * c.dim;
          const uint32_t end = member.kv_tokens + i + 1;
          std::vector<double> scores(end, -INFINITY);
          const auto number = [&](uint32_t key, bool value, uint32_t d) {
            const uint32_t p = batch.pages[member.first_page + key / c.page_tokens].value;
            const size_t head_at = (value ? c.kv_heads : 0) + kv_head;
            return Float(kv[p * page + head_at * line + key % c.page_tokens * c.dim + d]);
          };
          double most = c.sinks ? sinks[head] : -INFINITY;
          for (uint32_t key = 0; key < end; ++key) {
            if (c.window != 0 && key + c.window < end) continue;
            if (member.attention != nullptr && !BrleTest((*member.attention)[i], key)) continue;
            double sum = 0;
            for (uint32_t d = 0; d < c.dim; ++d)
              sum += double{Float(q[at + d])} * number(key, false, d);
            sum *= scale;
            if (c.softcap != 0) sum = c.softcap * std::tanh(sum / c.softcap);
            scores[key] = sum;
            most = std::max(most, sum);
          }
          double total = c.sinks ? std::exp(sinks[head] - most) : 0;
          for (const double score : scores) total += score > -INFINITY ? std::exp(score - most) : 0;
          for (uint32_t key = 0; key < end; ++key) {
            if (!(scores[key] > -INFINITY)) continue;
            const double weight = std::exp(scores[key] - most) / total;
            for (uint32_t d = 0; d < c.dim; ++d) {
              expected[at + d] += static_cast<float>(weight * number(key, true, d));
            }
          }
        }
      }
    }
    return Distance(got, expected);
  }
};

TEST_F(AttentionTest, HeadsAndLengths) {
  for (const uint32_t dim : {8U, 64U, 96U, 128U, 256U}) {
    for (const uint32_t kv_heads : {8U, 2U, 1U}) {
      Case c{.kv_heads = kv_heads,
             .dim = dim,
             .members = {{0, 1}, {1, 1}, {63, 1}, {64, 1}, {300, 1}, {0, 70}, {130, 33}, {40, 5}}};
      EXPECT_LT(Run(c), 1e-2) << dim << ", " << kv_heads;
      c.fixed_order = true;
      EXPECT_LT(Run(c), 1e-2) << dim << ", " << kv_heads << ", in a fixed order";
    }
  }
}

TEST_F(AttentionTest, KeysAndValuesInFp8) {
  for (const uint32_t dim : {8U, 64U, 96U, 128U, 256U}) {
    Case c{.dim = dim, .members = {{0, 1}, {63, 1}, {300, 1}, {0, 70}, {130, 33}}, .fp8 = true};
    EXPECT_LT(Run(c), 1e-2) << dim;
    c.fixed_order = true;
    EXPECT_LT(Run(c), 1e-2) << dim << ", in a fixed order";
  }
  for (const uint32_t page_tokens : {1U, 7U, 32U}) {
    EXPECT_LT(Run({.dim = 128,
                   .page_tokens = page_tokens,
                   .window = 90,
                   .sinks = true,
                   .masks = true,
                   .members = {{500, 1}, {200, 40}},
                   .fp8 = true}),
              1e-2)
        << page_tokens;
  }
}

// Small tiles of lines of every kind and length. With two processors, a block has several tiles,
// and a tile has many blocks of keys.
TEST_F(AttentionTest, SmallTilesInFp8) {
  const std::vector<std::pair<uint32_t, uint32_t>> members = {
      {0, 1},   {1, 1},   {14, 2},  {15, 1},  {16, 1},  {47, 1},  {48, 4},
      {62, 1},  {63, 2},  {64, 1},  {100, 3}, {130, 1}, {190, 4}, {255, 1},
      {256, 1}, {700, 1}, {129, 2}, {333, 1}, {0, 16},  {5, 9},   {400, 1}};
  for (const uint32_t dim : {24U, 40U, 64U, 80U, 128U, 160U, 256U}) {
    EXPECT_LT(Run({.dim = dim, .members = members, .fp8 = true, .processors = 2}), 1e-2) << dim;
  }
  for (const uint32_t kv_heads : {8U, 1U}) {
    EXPECT_LT(Run({.kv_heads = kv_heads,
                   .dim = 128,
                   .members = {{0, 1}, {200, 1}, {77, 2}, {300, 1}},
                   .fp8 = true,
                   .processors = 2}),
              1e-2)
        << kv_heads;
  }
  for (const uint32_t dim : {64U, 128U, 256U}) {
    Case c{.dim = dim, .members = {{0, 3}, {700, 1}, {90, 2}, {330, 3}}, .fp8 = true};
    for (const uint32_t processors : {2U, 132U}) {
      c.processors = processors;
      const auto check = [&](const Case& of, const char* what) {
        EXPECT_LT(Run(of), 1e-2) << what << ", " << dim << ", " << processors;
      };
      Case of = c;
      of.window = 17;
      check(of, "window");
      of.sinks = true;
      check(of, "window and sinks");
      of = c;
      of.masks = true;
      check(of, "masks");
      of = c;
      of.softcap = 2;
      check(of, "cap");
      of = c;
      of.shared_pages = 5;
      of.members = {{130, 1}, {99, 1}, {200, 2}, {333, 1}};
      check(of, "prefix");
      of.window = 100;
      of.softcap = 3;
      of.sinks = true;
      of.masks = true;
      check(of, "all");
    }
  }
}

// Queries, keys and values of any size give neither infinities nor zeros.
TEST_F(AttentionTest, ScalesOfFp8) {
  for (const uint32_t dim : {64U, 128U, 256U}) {
    Case c{.dim = dim, .members = {{0, 1}, {63, 1}, {300, 1}, {90, 4}}, .fp8 = true};
    for (const uint32_t processors : {2U, 132U}) {
      c.processors = processors;
      for (const int exponent : {-108, -60, -20, 10}) {
        Case of = c;
        of.value_exponent = exponent;
        EXPECT_LT(Run(of), 1e-2) << "values of 2^" << exponent << ", " << dim;
        of = c;
        of.key_exponent = exponent;
        of.query_range = std::ldexp(1.0F, -exponent);
        EXPECT_LT(Run(of), 1e-2) << "keys of 2^" << exponent << ", " << dim;
      }
      for (const int spread : {10, 30, 100}) {
        Case of = c;
        of.value_spread = spread;
        EXPECT_LT(Run(of), 1e-2) << "values between 1 and 2^-" << spread << ", " << dim;
      }
      Case of = c;
      of.query_range = 0;
      EXPECT_LT(Run(of), 1e-2) << "queries of 0, " << dim;
    }
  }
}

// Lines of the cache hold what is written there, rounded to e4m3 relative to the line's largest.
TEST_F(AttentionTest, WritesKeysAndValuesInFp8) {
  constexpr uint32_t kHeads = 2;
  constexpr uint32_t kDim = 24;  // padded to 32
  constexpr uint32_t kRows = 5;
  constexpr uint32_t kColumns = (kHeads + 2) * kDim;
  KvShape kv{.page_tokens = 3, .kv_heads = 1, .head_stride = kDim, .fp8 = true};
  kv.layer_offset = kv.layer_bytes();
  kv.page_bytes = 2 * kv.layer_bytes();
  ASSERT_EQ(kv.line_bytes(), 32U);
  auto qkv = RandomFloats(kRows * kColumns, 1);
  for (uint32_t i = 0; i < qkv.size(); ++i) {
    const uint32_t row = i / kColumns;
    qkv[i] *= row == 0 ? 1e-8F : row == 1 ? 300.0F : row == 2 ? 40'000.0F : 1.0F;
    if (row == 3) qkv[i] = 0;
  }
  std::vector<std::byte> bytes(sizeof(StepHeader) + kRows * 8);
  StepHeader header{};
  header.rows = kRows;
  header.places = sizeof header;
  std::memcpy(bytes.data(), &header, sizeof header);
  const uint64_t places[kRows] = {0, 4, 5, 2, 3};
  std::memcpy(bytes.data() + header.places, places, sizeof places);
  const DeviceArray step(bytes, stream_);
  const DeviceArray device_qkv(qkv, stream_);
  const DeviceArray q(std::vector<uint16_t>(kRows * kHeads * kDim), stream_);
  const DeviceArray pages(std::vector<uint8_t>(2 * kv.page_bytes, 0x55), stream_);
  kv.data = pages.data();
  RunRotateWrite({.step = reinterpret_cast<const StepHeader*>(step.data()),
                  .qkv = device_qkv.data(),
                  .q = q.data(),
                  .kv = kv,
                  .rows = kRows,
                  .heads = kHeads,
                  .head_size = kDim},
                 stream_);
  const auto got = pages.Read();
  for (uint64_t i = 0; i < kv.layer_offset; ++i) ASSERT_EQ(got[i], 0x55) << "another layer's";
  for (uint32_t row = 0; row < kRows; ++row) {
    for (uint32_t value = 0; value < 2; ++value) {
      const float* const expected = &qkv[row * kColumns + (kHeads + value) * kDim];
      const uint8_t* const layer = &got[places[row] / 3 * kv.page_bytes + kv.layer_offset];
      const uint64_t line = value * 3 + places[row] % 3;
      const int scale = layer[kv.scales_at() + line];
      const float most = std::abs(*std::max_element(
          expected, expected + kDim, [](float a, float b) { return std::abs(a) < std::abs(b); }));
      for (uint32_t i = 0; i < kDim; ++i) {
        constexpr uint32_t kOrder[] = {0, 2, 1, 3};
        const uint8_t bits = layer[line * kv.line_bytes() + i / 4 * 4 + kOrder[i % 4]];
        EXPECT_NEAR(std::ldexp(E4m3ToFloat(bits), scale - 247), expected[i],
                    std::abs(expected[i]) / 16 + most * 0x1p-17F)
            << "row " << row << ", " << (value ? "value" : "key") << ", number " << i;
      }
    }
  }
}

TEST_F(AttentionTest, PagesOfEverySize) {
  for (const uint32_t page_tokens : {1U, 7U, 8U, 24U, 32U, 64U, 128U}) {
    EXPECT_LT(Run({.dim = 128, .page_tokens = page_tokens, .members = {{500, 1}, {200, 40}}}), 1e-2)
        << page_tokens;
  }
}

TEST_F(AttentionTest, WindowsMasksCapsAndSinks) {
  const std::vector<std::pair<uint32_t, uint32_t>> members = {{0, 9}, {700, 1}, {90, 40}, {330, 3}};
  EXPECT_LT(Run({.window = 17, .members = members}), 1e-2);
  EXPECT_LT(Run({.masks = true, .members = members}), 1e-2);
  EXPECT_LT(Run({.softcap = 2, .members = members}), 1e-2);
  EXPECT_LT(Run({.sinks = true, .members = members}), 1e-2);
  EXPECT_LT(Run({.window = 100, .softcap = 3, .sinks = true, .masks = true, .members = members}),
            1e-2);
}

TEST_F(AttentionTest, PrefixesAreReadOnce) {
  std::vector<std::pair<uint32_t, uint32_t>> members;
  for (uint32_t i = 0; i < 40; ++i) members.emplace_back(320 + i * 7, 1 + i % 3);
  EXPECT_LT(Run({.shared_pages = 20, .members = members}), 1e-2);
  EXPECT_LT(Run({.window = 50, .shared_pages = 20, .members = members}), 1e-2);
  EXPECT_LT(Run({.masks = true, .shared_pages = 20, .members = members}), 1e-2);
}

// Prints the bandwidth at which attention reads the KV cache, and its products a second, for heads
// as in Llama 3.
TEST_F(AttentionTest, Speed) {
  constexpr uint32_t kHeads = 32;
  constexpr uint32_t kKvHeads = 8;
  constexpr uint32_t kPageTokens = 32;
  constexpr uint32_t kPrefixPages = 512;
  struct Load {
    uint32_t sequences, tokens, rows;
    bool shared = false;
    uint32_t dim = 128;
    bool fp8 = false;
  };
  for (const Load& load : {Load{1, 1023, 1},
                           {1, 16383, 1},
                           {8, 1023, 1},
                           {64, 1023, 1},
                           {64, 4095, 1},
                           {256, 1023, 1},
                           {16, 16400, 1, true},
                           {32, 16400, 1, true},
                           {64, 16400, 1, true},
                           {128, 16400, 1, true},
                           {1, 0, 512},
                           {1, 0, 2048},
                           {4, 0, 2048},
                           {1, 0, 8192},
                           {1, 30'000, 600},
                           {1, 1023, 1, false, 128, true},
                           {8, 1023, 1, false, 128, true},
                           {64, 1023, 1, false, 128, true},
                           {64, 4095, 1, false, 128, true},
                           {256, 1023, 1, false, 128, true},
                           {64, 1023, 1, false, 64, true},
                           {64, 1023, 1, false, 256, true},
                           {64, 16400, 1, true, 128, true},
                           {1, 0, 2048, false, 128, true},
                           {64, 16400, 1, true, 64},
                           {1, 0, 2048, false, 64},
                           {1, 0, 8192, false, 64}}) {
    Batch batch;
    const uint32_t pages = (load.tokens + load.rows + kPageTokens - 1) / kPageTokens;
    uint32_t next_page = load.shared ? kPrefixPages : 0;
    double seen = 0;  // keys, of all rows
    for (uint32_t i = 0; i < load.sequences; ++i) {
      batch.members.push_back({.first_row = i * load.rows,
                               .rows = load.rows,
                               .first_page = i * pages,
                               .pages = pages,
                               .kv_tokens = load.tokens});
      for (uint32_t p = 0; p < pages; ++p) {
        batch.pages.push_back({load.shared && p < kPrefixPages ? p : next_page++});
      }
      for (uint32_t r = 0; r < load.rows; ++r) {
        batch.tokens.push_back(0);
        batch.positions.push_back(load.tokens + r);
        seen += load.tokens + r + 1;
      }
    }
    StepBuilder builder({.page_tokens = kPageTokens,
                         .vocab = 100,
                         .group = kHeads / kKvHeads,
                         .kv_heads = kKvHeads,
                         .large_lines = LargeTileLines(load.dim),
                         .processors = 132,
                         .max_parts = 8192,
                         .max_members = 256});
    StepPlan plan;
    builder.Build(batch, 1, plan);
    KvShape shape{.page_tokens = kPageTokens,
                  .page_shift = 5,
                  .kv_heads = kKvHeads,
                  .head_stride = load.dim,
                  .fp8 = load.fp8};
    const uint64_t layer_bytes = next_page * shape.layer_bytes();
    // Several layers, so that the cache does not help.
    const auto layers = static_cast<uint32_t>(std::max<size_t>(2, (size_t{1} << 30) / layer_bytes));
    void* const kv = Allocate(layer_bytes * layers);
    ASSERT_NE(kv, nullptr);
    Fill(kv, 0x3C, layer_bytes * layers, stream_);
    shape.data = kv;
    shape.page_bytes = layers * shape.layer_bytes();
    const DeviceArray q(RandomBFloats(size_t{plan.rows} * kHeads * load.dim, 2), stream_);
    const DeviceArray out(std::vector<uint16_t>(size_t{plan.rows} * kHeads * load.dim), stream_);
    const DeviceArray step(plan.bytes, stream_);
    const DeviceArray parts(std::vector<float>(size_t{8192} * kHeads * load.dim), stream_);
    const DeviceArray logs(std::vector<float>(size_t{8192} * kHeads), stream_);
    MatrixMap lines;
    const bool in_boxes = DescribeLines(shape, next_page, &lines);
    const auto print = [&](const char* what, bool small, bool large, bool merge) {
      const auto run = [&] {
        for (uint32_t layer = 0; layer < layers; ++layer) {
          shape.layer_offset = layer * shape.layer_bytes();
          const Attention attention{.step = reinterpret_cast<const StepHeader*>(step.data()),
                                    .kv = shape,
                                    .q = q.data(),
                                    .out = out.data(),
                                    .heads = kHeads,
                                    .scale = 0.1F,
                                    .parts = parts.data(),
                                    .part_logs = logs.data(),
                                    .kv_lines = in_boxes ? &lines : nullptr};
          if (small && plan.header().small_tiles > 0) RunSmallTiles(attention, 132, stream_);
          if (large && plan.has_large_tiles) RunLargeTiles(attention, 132, stream_);
          if (merge && plan.has_parts) RunMergeParts(attention, plan.rows, stream_);
        }
      };
      const double seconds = SecondsOf(run, 1, stream_) / layers;
      const auto bytes = static_cast<double>(layer_bytes);
      const double flop = 4.0 * seen * kHeads * load.dim;
      fmt::print(
          "{:>3} × {:>5}, {} rows, heads of {}{}{}{}: {:7.1f} µs a layer, {:.2f} TB/s, {:.0f} "
          "TFLOP/s\n",
          load.sequences, load.tokens + load.rows, load.rows, load.dim,
          load.shared ? ", behind one prefix" : "", load.fp8 ? ", fp8" : "", what, seconds * 1e6,
          bytes / seconds / 1e12, flop / seconds / 1e12);
    };
    if (plan.has_large_tiles) {
      const StepHeader& h = plan.header();
      fmt::print("{} small tiles, {} large tiles\n", h.small_tiles, h.large_tiles);
      if (h.small_tiles > 0) print(", small tiles", true, false, false);
      if (plan.has_parts) print(", merge", false, false, true);
      print(", large tiles", false, true, false);
    }
    print("", true, true, true);
    Free(kv);
  }
}

}  // namespace
}  // namespace pie::cuda
