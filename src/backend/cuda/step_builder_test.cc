#include "backend/cuda/step_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "backend/cuda/kernels/attention.h"
#include "base/random.h"

namespace pie::cuda {
namespace {

constexpr StepShape kShape{.page_tokens = 16,
                           .vocab = 100,
                           .group = 4,
                           .kv_heads = 8,
                           .large_lines = 128,
                           .processors = 132,
                           .max_parts = 4096,
                           .max_members = 64};

struct MemberSpec {
  uint32_t kv_tokens;
  uint32_t rows;
  uint32_t shared_pages = 0;  // of pages 0, 1, …
};

Batch MakeBatch(const std::vector<MemberSpec>& members) {
  Batch batch;
  uint32_t next_page = 1000;
  for (const MemberSpec& spec : members) {
    Batch::Member member{.first_row = static_cast<uint32_t>(batch.tokens.size()),
                         .rows = spec.rows,
                         .first_page = static_cast<uint32_t>(batch.pages.size()),
                         .pages = (spec.kv_tokens + spec.rows + 15) / 16,
                         .kv_tokens = spec.kv_tokens};
    for (uint32_t p = 0; p < member.pages; ++p) {
      batch.pages.push_back({p < spec.shared_pages ? p : next_page++});
    }
    for (uint32_t i = 0; i < spec.rows; ++i) {
      batch.tokens.push_back(i);
      batch.positions.push_back(spec.kv_tokens + i);
    }
    batch.members.push_back(member);
  }
  return batch;
}

// Every row sees every key up to its own exactly once, and every partial result has one writer.
void CheckTiles(const Batch& batch, const StepPlan& plan, const StepShape& shape) {
  const StepHeader& header = plan.header();
  const auto* const tiles = ArrayOf<AttentionTile>(&header, header.tiles);
  const auto* const tile_rows = ArrayOf<TileRow>(&header, header.tile_rows);
  const auto* const row_parts = ArrayOf<RowParts>(&header, header.row_parts);
  const auto* const pages = ArrayOf<uint32_t>(&header, header.pages);
  std::vector<std::map<uint32_t, uint32_t>> seen(plan.rows);  // key → page
  std::set<uint32_t> parts;
  std::vector<uint32_t> results(plan.rows);
  for (uint32_t t = 0; t < header.small_tiles + header.large_tiles; ++t) {
    const AttentionTile& tile = tiles[t];
    const uint32_t lines = t < header.small_tiles ? kSmallTileLines : shape.large_lines;
    EXPECT_LE(tile.rows * shape.group, lines);
    for (uint32_t i = 0; i < tile.rows; ++i) {
      const TileRow& row = tile_rows[tile.first_row + i];
      ++results[row.row];
      if (row.part != kNone) {
        EXPECT_TRUE(parts.insert(row.part).second);
        EXPECT_GE(row.part, row_parts[row.row].first);
        EXPECT_LT(row.part, row_parts[row.row].first + row_parts[row.row].count);
        EXPECT_LT(row.part, shape.max_parts);
      }
      for (uint32_t key = tile.begin_key; key < tile.end_key; ++key) {
        const uint32_t page = pages[tile.first_page + key / shape.page_tokens];
        EXPECT_TRUE(seen[row.row].emplace(key, page).second) << "row " << row.row << " key " << key;
      }
    }
  }
  for (const Batch::Member& member : batch.members) {
    for (uint32_t i = 0; i < member.rows; ++i) {
      const uint32_t row = member.first_row + i;
      EXPECT_EQ(results[row], std::max(1U, row_parts[row].count));
      for (uint32_t key = 0; key <= member.kv_tokens + i; ++key) {
        const auto found = seen[row].find(key);
        ASSERT_NE(found, seen[row].end()) << "row " << row << " key " << key;
        EXPECT_EQ(found->second, batch.pages[member.first_page + key / shape.page_tokens].value);
      }
    }
  }
}

TEST(StepBuilder, TilesCoverEveryKeyOnce) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<MemberSpec> members;
    const uint32_t count = 1 + Mix(seed, 1) % 12;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t kinds[] = {1, 1, 1, 3, 17, 90};
      members.push_back({.kv_tokens = static_cast<uint32_t>(Mix(seed, 2, i) % 900),
                         .rows = kinds[Mix(seed, 3, i) % 6],
                         .shared_pages = static_cast<uint32_t>(Mix(seed, 4, i) % 3 * 20)});
    }
    const Batch batch = MakeBatch(members);
    for (const uint32_t max_parts : {64U, 4096U}) {
      StepShape shape = kShape;
      shape.max_parts =
          std::max<uint32_t>(max_parts, 2 * static_cast<uint32_t>(batch.tokens.size()));
      StepPlan plan;
      StepBuilder(shape).Build(batch, 1, plan);
      CheckTiles(batch, plan, shape);
    }
  }
}

// The cuts of a row, and the order of its partial results, depend on the row alone.
TEST(StepBuilder, FixedCutsDependOnTheRowAlone) {
  StepShape shape = kShape;
  shape.fixed_cut = 128;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    std::vector<MemberSpec> members;
    const uint32_t count = 1 + Mix(seed, 1) % 12;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t kinds[] = {1, 1, 3, 90};
      members.push_back({.kv_tokens = static_cast<uint32_t>(Mix(seed, 2, i) % 900),
                         .rows = kinds[Mix(seed, 3, i) % 4],
                         .shared_pages = static_cast<uint32_t>(Mix(seed, 4, i) % 3 * 20)});
    }
    const Batch batch = MakeBatch(members);
    StepPlan plan;
    StepBuilder(shape).Build(batch, 1, plan);
    CheckTiles(batch, plan, shape);
    const StepHeader& header = plan.header();
    const auto* const tiles = ArrayOf<AttentionTile>(&header, header.tiles);
    const auto* const row_parts = ArrayOf<RowParts>(&header, header.row_parts);
    for (uint32_t t = 0; t < header.small_tiles + header.large_tiles; ++t) {
      EXPECT_EQ(tiles[t].begin_key % 128, 0U);
      for (uint32_t i = 0; i < tiles[t].rows; ++i) {
        const TileRow& row = ArrayOf<TileRow>(&header, header.tile_rows)[tiles[t].first_row + i];
        if (row.part == kNone) continue;
        EXPECT_EQ(row.part - row_parts[row.row].first, tiles[t].begin_key / 128);
      }
    }
    for (const Batch::Member& member : batch.members) {
      for (uint32_t i = 0; i < member.rows; ++i) {
        const uint32_t pieces = (member.kv_tokens + i) / 128 + 1;
        EXPECT_EQ(row_parts[member.first_row + i].count, pieces == 1 ? 0 : pieces);
      }
    }
  }
}

TEST(StepBuilder, ALongSequenceIsSpreadOverTheDevice) {
  StepPlan plan;
  const Batch batch = MakeBatch({{.kv_tokens = 16'383, .rows = 1}});
  StepBuilder(kShape).Build(batch, 1, plan);
  EXPECT_GE(plan.header().small_tiles * kShape.kv_heads, 200U);
  EXPECT_FALSE(plan.has_large_tiles);
}

TEST(StepBuilder, APrefixHasTilesOfItsOwn) {
  std::vector<MemberSpec> members(32, {.kv_tokens = 1040, .rows = 1, .shared_pages = 64});
  StepPlan plan;
  const Batch batch = MakeBatch(members);
  StepBuilder(kShape).Build(batch, 1, plan);
  EXPECT_TRUE(plan.has_large_tiles);
  uint64_t keys = 0;
  const StepHeader& header = plan.header();
  const auto* const tiles = ArrayOf<AttentionTile>(&header, header.tiles);
  for (uint32_t t = 0; t < header.small_tiles + header.large_tiles; ++t) {
    keys += tiles[t].end_key - tiles[t].begin_key;
  }
  EXPECT_LT(keys, 1024 + 32 * 64) << "the prefix is read once";
}

// Large tiles are dealt to the multiprocessors from left to right and back (attention_hopper.cu).
TEST(StepBuilder, LargeTilesKeepAllProcessorsBusy) {
  const std::vector<std::vector<MemberSpec>> batches = {
      {{.kv_tokens = 0, .rows = 2048}},
      {{.kv_tokens = 30'000, .rows = 600}},
      std::vector<MemberSpec>(64, {.kv_tokens = 16'400, .rows = 1, .shared_pages = 1024}),
      std::vector<MemberSpec>(32, {.kv_tokens = 20'100, .rows = 1, .shared_pages = 1250})};
  for (const std::vector<MemberSpec>& members : batches) {
    const Batch batch = MakeBatch(members);
    StepPlan plan;
    StepBuilder(kShape).Build(batch, 1, plan);
    const StepHeader& header = plan.header();
    const auto* const tiles = ArrayOf<AttentionTile>(&header, header.tiles) + header.small_tiles;
    std::vector<uint64_t> keys(kShape.processors);
    uint64_t all = 0;
    for (uint32_t item = 0; item < header.large_tiles * kShape.kv_heads; ++item) {
      const AttentionTile& tile = tiles[item / kShape.kv_heads];
      const uint32_t place = item % kShape.processors;
      const bool back = item / kShape.processors % 2 != 0;
      keys[back ? kShape.processors - 1 - place : place] += tile.end_key - tile.begin_key;
      all += tile.end_key - tile.begin_key;
    }
    const uint64_t mean = all / kShape.processors;
    EXPECT_LE(*std::ranges::max_element(keys), mean + mean / 6)
        << members.size() << " members, the first with " << members[0].kv_tokens;
  }
}

TEST(StepBuilder, SamplesSlotsAndCarriedTokens) {
  using Kind = SampleSpec::Kind;
  Batch batch = MakeBatch({{.kv_tokens = 4, .rows = 3}, {.kv_tokens = 9, .rows = 1}});
  const std::vector<SampleSpec> first = {
      {.kind = Kind::kMultinomial, .temperature = 1, .draws = 3, .rows = {2, 0}},
      {.kind = Kind::kLogprobs, .rows = {1}, .ids = {4, 5}},
      {.kind = Kind::kEntropy, .rows = {2}},
      {.kind = Kind::kLogits, .rows = {0, 7}}};
  const std::vector<SampleSpec> second = {{.kind = Kind::kDistribution, .rows = {0}},
                                          {.rows = {0}}};
  const Brle mask = {3, 40, 1, 2};
  batch.members[0].samples = &first;
  batch.members[1].samples = &second;
  batch.members[1].logit_mask = &mask;
  batch.carried = {{.row = 3, .batch = 6, .member = 5}};
  StepPlan plan;
  StepBuilder(kShape).Build(batch, 7, plan);
  const StepHeader& header = plan.header();
  EXPECT_EQ(plan.reads, 4U);
  EXPECT_EQ(plan.tokens, 7U);
  EXPECT_EQ(plan.values, 3U);
  EXPECT_EQ(plan.host_reads, (std::vector<uint32_t>{0, 3}));
  EXPECT_TRUE(plan.chooses[0]);
  EXPECT_FALSE(plan.chooses[1]) << "its first slot is a distribution";
  EXPECT_EQ(plan.slots[0].size(), 5U) << "row 7 belongs to a later chunk";
  EXPECT_EQ(ArrayOf<uint32_t>(&header, header.sources)[3], 2 * kShape.max_members + 5);
  EXPECT_EQ(ArrayOf<uint32_t>(&header, header.sources)[0], kNone);
  const auto* const items = ArrayOf<SampleItem>(&header, header.sample_items);
  EXPECT_EQ(items[0].read, 0U);  // by read, not by the order of the sample
  EXPECT_EQ(items[1].chosen, 3 * kShape.max_members + 0) << "the first slot is row 2";
  const uint32_t* const words = ArrayOf<uint32_t>(&header, header.mask_words) + items[2].mask;
  for (uint32_t id = 0; id < kShape.vocab; ++id) {
    EXPECT_EQ((words[id / 32] >> (id % 32) & 1U) != 0, BrleTest(mask, id)) << id;
  }
}

}  // namespace
}  // namespace pie::cuda
