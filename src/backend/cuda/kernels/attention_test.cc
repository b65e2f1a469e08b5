// Attention on the device against a plain oracle, with tiles as the step builder makes them.
#include "backend/cuda/kernels/attention.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda/kernels/testing.h"
#include "backend/cuda/step_builder.h"

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
};

class AttentionTest : public OnDevice {
 protected:
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
                         .processors = 132,
                         .max_parts = 4096,
                         .max_members = 256});
    StepPlan plan;
    builder.Build(batch, 1, plan);

    const size_t line = size_t{c.page_tokens} * c.dim;
    const size_t page = 2 * c.kv_heads * line;
    const auto kv = RandomBFloats(next_page * page, 1);
    const auto q = RandomBFloats(size_t{plan.rows} * c.heads * c.dim, 2);
    const auto sinks = RandomFloats(c.heads, 3);
    const float scale = 2 / std::sqrt(static_cast<float>(c.dim));
    const DeviceArray device_kv(kv, stream_);
    const DeviceArray device_q(q, stream_);
    const DeviceArray device_sinks(sinks, stream_);
    const DeviceArray step(plan.bytes, stream_);
    const DeviceArray out(std::vector<uint16_t>(q.size(), 0x7FC0), stream_);  // NaN
    const DeviceArray parts(std::vector<float>(size_t{4096} * c.heads * c.dim, NAN), stream_);
    const DeviceArray logs(std::vector<float>(size_t{4096} * c.heads, NAN), stream_);
    const Attention attention{.step = reinterpret_cast<const StepHeader*>(step.data()),
                              .kv = {.data = device_kv.data(),
                                     .page_stride = page,
                                     .page_tokens = c.page_tokens,
                                     .kv_heads = c.kv_heads,
                                     .head_stride = c.dim},
                              .q = device_q.data(),
                              .out = out.data(),
                              .heads = c.heads,
                              .scale = scale,
                              .softcap = c.softcap,
                              .window = c.window,
                              .sinks = c.sinks ? device_sinks.data() : nullptr,
                              .parts = parts.data(),
                              .part_logs = logs.data(),
                              .fixed_order = c.fixed_order};
    RunSmallTiles(attention, 132, stream_);
    RunLargeTiles(attention, 132, stream_);
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

TEST_F(AttentionTest, PagesOfEverySize) {
  for (const uint32_t page_tokens : {1U, 7U, 16U, 32U, 64U}) {
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

// Prints what the memory gives for Llama 3's heads.
TEST_F(AttentionTest, Speed) {
  constexpr uint32_t kHeads = 32;
  constexpr uint32_t kKvHeads = 8;
  constexpr uint32_t kDim = 128;
  constexpr uint32_t kPageTokens = 32;
  struct Load {
    uint32_t sequences, tokens, rows;
    bool shared;
  };
  for (const Load& load : {Load{1, 1023, 1, false},
                           {1, 16383, 1, false},
                           {8, 1023, 1, false},
                           {64, 1023, 1, false},
                           {64, 4095, 1, false},
                           {256, 1023, 1, false},
                           {64, 16400, 1, true},
                           {1, 0, 2048, false}}) {
    Batch batch;
    const uint32_t pages = (load.tokens + load.rows + kPageTokens - 1) / kPageTokens;
    uint32_t next_page = 0;
    for (uint32_t i = 0; i < load.sequences; ++i) {
      batch.members.push_back({.first_row = i * load.rows,
                               .rows = load.rows,
                               .first_page = i * pages,
                               .pages = pages,
                               .kv_tokens = load.tokens});
      for (uint32_t p = 0; p < pages; ++p) {
        const bool common = load.shared && p < 512;
        batch.pages.push_back({common ? p : 512 * (load.shared ? 1 : 0) + next_page++});
      }
      for (uint32_t r = 0; r < load.rows; ++r) {
        batch.tokens.push_back(0);
        batch.positions.push_back(load.tokens + r);
      }
    }
    next_page += load.shared ? 512 : 0;
    StepBuilder builder({.page_tokens = kPageTokens,
                         .vocab = 100,
                         .group = kHeads / kKvHeads,
                         .kv_heads = kKvHeads,
                         .large_lines = 128,
                         .processors = 132,
                         .max_parts = 8192,
                         .max_members = 256});
    StepPlan plan;
    builder.Build(batch, 1, plan);
    const size_t page = size_t{2} * kKvHeads * kPageTokens * kDim;
    // Several layers, so that the cache does not help.
    const auto layers =
        static_cast<uint32_t>(std::max<size_t>(2, (size_t{1} << 30) / (next_page * page * 2)));
    void* const kv = Allocate(size_t{next_page} * page * 2 * layers);
    ASSERT_NE(kv, nullptr);
    Fill(kv, 0x3C, size_t{next_page} * page * 2 * layers, stream_);
    const DeviceArray q(RandomBFloats(size_t{plan.rows} * kHeads * kDim, 2), stream_);
    const DeviceArray out(std::vector<uint16_t>(size_t{plan.rows} * kHeads * kDim), stream_);
    const DeviceArray step(plan.bytes, stream_);
    const DeviceArray parts(std::vector<float>(size_t{8192} * kHeads * kDim), stream_);
    const DeviceArray logs(std::vector<float>(size_t{8192} * kHeads), stream_);
    const auto run = [&] {
      for (uint32_t layer = 0; layer < layers; ++layer) {
        Attention attention{.step = reinterpret_cast<const StepHeader*>(step.data()),
                            .kv = {.data = kv,
                                   .page_stride = page * layers,
                                   .layer_offset = page * layer,
                                   .page_tokens = kPageTokens,
                                   .page_shift = 5,
                                   .kv_heads = kKvHeads,
                                   .head_stride = kDim},
                            .q = q.data(),
                            .out = out.data(),
                            .heads = kHeads,
                            .scale = 0.1F,
                            .parts = parts.data(),
                            .part_logs = logs.data()};
        RunSmallTiles(attention, 132, stream_);
        if (plan.has_large_tiles) RunLargeTiles(attention, 132, stream_);
        RunMergeParts(attention, plan.rows, stream_);
      }
    };
    run();
    Synchronize(stream_);
    BeginCapture(stream_);
    run();
    const Graph graph = EndCapture(stream_);
    ASSERT_NE(graph, nullptr);
    RunGraph(graph, stream_);
    const Event begin = MakeEvent();
    const Event end = MakeEvent();
    RecordEvent(begin, stream_);
    RunGraph(graph, stream_);
    RecordEvent(end, stream_);
    const double seconds = MillisecondsBetween(begin, end) / 1e3 / layers;
    const double bytes = 1.0 * next_page * page * 2;
    const double flop = load.rows == 1 ? 0 : 2.0 * load.rows * load.rows * kHeads * kDim;
    fmt::print("{:>3} × {:>5}{}: {:7.1f} µs a layer, {:.2f} TB/s, {:.0f} TFLOP/s\n", load.sequences,
               load.tokens + load.rows, load.shared ? " behind one prefix" : "", seconds * 1e6,
               bytes / seconds / 1e12, flop / seconds / 1e12);
    DestroyGraph(graph);
    DestroyEvent(begin);
    DestroyEvent(end);
    Free(kv);
  }
}

}  // namespace
}  // namespace pie::cuda
