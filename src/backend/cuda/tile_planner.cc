#include "backend/cuda/tile_planner.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "backend/cuda/kernels/attention.h"
#include "base/result.h"
#include "base/round_up.h"

namespace pie::cuda {
namespace {

constexpr uint32_t kLeastSharedKeys = 128;  // shorter prefixes are not worth a tile of their own
constexpr uint32_t kLargeBlock = 128;       // large tiles have multiples of this number of keys
constexpr uint32_t kFewRows = 16;           // a member with at most this many rows uses small tiles

uint32_t PiecesOf(uint32_t keys, uint32_t cut) {
  return (keys + cut - 1) / cut;
}

}  // namespace

bool TilePlanner::IsFew(const Batch::Member& member) const {
  return member.rows <= kFewRows && shape_.group <= kSmallTileLines;
}

// Members with few rows whose page tables begin with the same pages form a prefix.
void TilePlanner::FindPrefixes(const Batch& batch) {
  prefixes_.clear();
  shared_keys_.assign(batch.members.size(), 0);
  std::map<uint32_t, std::vector<uint32_t>> by_first_page;
  for (uint32_t m = 0; m < batch.members.size(); ++m) {
    const Batch::Member& member = batch.members[m];
    if (!IsFew(member) || member.kv_tokens < kLeastSharedKeys || member.rows == 0) continue;
    by_first_page[batch.pages[member.first_page].value].push_back(m);
  }
  for (auto& [page, members] : by_first_page) {
    if (members.size() < 2) continue;
    const Batch::Member& first = batch.members[members[0]];
    uint32_t common = first.pages;
    uint32_t keys = first.kv_tokens;
    for (const uint32_t m : members) {
      const Batch::Member& other = batch.members[m];
      uint32_t same = 0;
      const uint32_t most = std::min(common, other.pages);
      while (same < most &&
             batch.pages[first.first_page + same] == batch.pages[other.first_page + same]) {
        ++same;
      }
      common = same;
      keys = std::min(keys, other.kv_tokens);
    }
    keys = static_cast<uint32_t>(std::min<uint64_t>(keys, uint64_t{common} * shape_.page_tokens));
    const uint32_t unit = std::max(shape_.fixed_cut, kKeyBlock);
    keys = keys / unit * unit;
    if (keys < kLeastSharedKeys) continue;
    for (const uint32_t m : members) shared_keys_[m] = keys;
    prefixes_.push_back({keys, std::move(members)});
  }
}

struct TilePlanner::Part {
  std::vector<uint32_t> rows;
  uint32_t first_page;
  uint32_t begin;
  uint32_t end;
  bool large;
};

// Which rows read which keys together.
std::vector<TilePlanner::Part> TilePlanner::PartsOf(const Batch& batch) {
  FindPrefixes(batch);
  std::vector<Part> parts;
  const auto add = [&](std::vector<uint32_t> rows, uint32_t first_page, uint32_t begin,
                       uint32_t end, bool large) {
    const uint32_t lines = large ? shape_.large_lines : kSmallTileLines;
    const uint32_t each = std::max(1U, lines / shape_.group);
    for (size_t at = 0; at < rows.size(); at += each) {
      const size_t count = std::min<size_t>(each, rows.size() - at);
      Part part{.rows = {rows.begin() + static_cast<ptrdiff_t>(at),
                         rows.begin() + static_cast<ptrdiff_t>(at + count)},
                .first_page = first_page,
                .begin = begin,
                .end = end,
                .large = large};
      // Keys after the last row's own are not seen.
      uint32_t most = 0;
      for (const uint32_t row : part.rows) most = std::max(most, limits_[row]);
      part.end = std::min(end, most);
      if (part.begin < part.end) parts.push_back(std::move(part));
    }
  };
  for (const Prefix& prefix : prefixes_) {
    std::vector<uint32_t> rows;
    for (const uint32_t m : prefix.members) {
      const Batch::Member& member = batch.members[m];
      for (uint32_t i = 0; i < member.rows; ++i) rows.push_back(member.first_row + i);
    }
    const bool large = rows.size() * shape_.group > kSmallTileLines;
    add(std::move(rows), batch.members[prefix.members[0]].first_page, 0, prefix.keys, large);
  }
  for (uint32_t m = 0; m < batch.members.size(); ++m) {
    const Batch::Member& member = batch.members[m];
    std::vector<uint32_t> rows(member.rows);
    for (uint32_t i = 0; i < member.rows; ++i) rows[i] = member.first_row + i;
    add(std::move(rows), member.first_page, shared_keys_[m], member.kv_tokens + member.rows,
        !IsFew(member));
  }
  return parts;
}

// Every piece of `fixed_cut` keys is a tile, of the rows that see some of it.
TileList TilePlanner::PlanFixed(const std::vector<Part>& parts) const {
  const uint32_t cut = shape_.fixed_cut;
  TileList list{.parts = std::vector<RowParts>(limits_.size())};
  uint32_t next_part = 0;
  for (uint32_t row = 0; row < limits_.size(); ++row) {
    const uint32_t count = (limits_[row] + cut - 1) / cut;
    if (count <= 1) continue;
    list.parts[row] = {next_part, count};
    next_part += count;
  }
  PIE_CHECK(next_part <= shape_.max_parts);
  for (const Part& part : parts) {
    for (uint32_t begin = part.begin; begin < part.end; begin += cut) {
      AttentionTile tile{.first_row = static_cast<uint32_t>(list.rows.size()),
                         .rows = 0,
                         .first_page = part.first_page,
                         .begin_key = begin,
                         .end_key = std::min(begin + cut, part.end),
                         .all_see = ~0U,
                         .has_masks = 0};
      for (const uint32_t row : part.rows) {
        if (limits_[row] <= begin) continue;
        const RowParts& of = list.parts[row];
        list.rows.push_back({row, of.count == 0 ? kNone : of.first + begin / cut});
        ++tile.rows;
        tile.all_see = std::min(tile.all_see, limits_[row]);
        if (row_masks_[row] != kNone) tile.has_masks = 1;
      }
      if (tile.rows > 0) (part.large ? list.large : list.small).push_back(tile);
    }
  }
  return list;
}

// Long parts are cut so that every multiprocessor has work. Two small tiles fit on one.
uint32_t TilePlanner::SmallCut(const std::vector<Part>& parts) const {
  uint64_t work = 0;
  for (const Part& part : parts) {
    if (!part.large) work += uint64_t{part.end - part.begin} * shape_.kv_heads;
  }
  return static_cast<uint32_t>(
      std::max<uint64_t>(RoundUp<uint64_t>(work / (2 * shape_.processors), kKeyBlock), kKeyBlock));
}

// A multiprocessor has one large tile at a time. The cut is chosen so that the last of them is done
// first, by how long the longest list of tiles takes.
uint32_t TilePlanner::LargeCut(const std::vector<Part>& parts) const {
  // The fixed cost of a tile, and the cost of merging its results, in keys.
  constexpr uint32_t kTileCost = 128;
  constexpr uint32_t kMergeCost = 256;
  constexpr uint32_t kLeastCut = 256;
  constexpr uint32_t kMostRounds = 6;  // of tiles on all multiprocessors, with cuts
  uint64_t work = 0;
  uint32_t longest = kLeastCut;
  std::vector<uint32_t> lengths;
  for (const Part& part : parts) {
    if (!part.large) continue;
    lengths.push_back(part.end - part.begin);
    work += uint64_t{lengths.back()} * shape_.kv_heads;
    longest = std::max(longest, lengths.back());
  }
  if (lengths.empty()) return longest;
  const uint64_t processors = std::max(shape_.processors, 1U);
  const auto tiles_of = [&](uint32_t cut) {
    uint64_t tiles = 0;
    for (const uint32_t length : lengths) tiles += PiecesOf(length, cut);
    return tiles * shape_.kv_heads;
  };
  // Tiles are dealt as the kernel does it: the longest first, from left to right and back.
  const auto time_of = [&](uint32_t cut) {
    std::vector<std::pair<uint32_t, uint32_t>> costs;  // and how many tiles have it
    for (const uint32_t length : lengths) {
      const uint32_t pieces = PiecesOf(length, cut);
      const uint32_t keys = RoundUp(PiecesOf(length, pieces), kLargeBlock);
      costs.emplace_back(keys + kTileCost + (pieces > 1 ? kMergeCost : 0),
                         pieces * shape_.kv_heads);
    }
    std::ranges::sort(costs, std::greater<>());
    std::vector<uint64_t> busy(processors);
    uint64_t item = 0;
    for (const auto& [cost, count] : costs) {
      for (uint32_t i = 0; i < count; ++i, ++item) {
        const uint64_t place = item % processors;
        busy[item / processors % 2 == 0 ? place : processors - 1 - place] += cost;
      }
    }
    return std::ranges::max(busy);
  };
  uint32_t best = longest;
  const uint64_t whole_rounds = (tiles_of(longest) + processors - 1) / processors;
  if (whole_rounds > kMostRounds) {  // enough tiles, but one may be longer than all others together
    return static_cast<uint32_t>(
        std::max<uint64_t>(RoundUp<uint64_t>(work / processors, kLargeBlock), kLeastCut));
  }
  uint64_t least = time_of(best);
  for (uint64_t rounds = whole_rounds; rounds <= kMostRounds; ++rounds) {
    auto cut = static_cast<uint32_t>(std::max<uint64_t>(
        RoundUp<uint64_t>(work / (rounds * processors), kLargeBlock), kLeastCut));
    while (cut < longest && tiles_of(cut) > rounds * processors) cut += kLargeBlock;
    if (cut >= longest) continue;
    const uint64_t time = time_of(cut);
    if (time < least) {
      least = time;
      best = cut;
    }
  }
  return best;
}

TileList TilePlanner::Plan(const Batch& batch, std::span<const uint32_t> limits,
                           std::span<const uint32_t> row_masks) {
  limits_ = limits;
  row_masks_ = row_masks;
  const std::vector<Part> parts = PartsOf(batch);
  return shape_.fixed_cut != 0 ? PlanFixed(parts) : PlanCut(parts);
}

// Long parts are cut, but only into as many pieces as there is room for partial results.
TileList TilePlanner::PlanCut(const std::vector<Part>& parts) const {
  uint32_t cuts[2] = {SmallCut(parts), LargeCut(parts)};
  std::vector<uint32_t> pieces(parts.size());
  std::vector<uint32_t> of_row(limits_.size());
  for (;;) {
    std::ranges::fill(of_row, 0);
    for (size_t i = 0; i < parts.size(); ++i) {
      const uint32_t cut = cuts[parts[i].large ? 1 : 0];
      pieces[i] = PiecesOf(parts[i].end - parts[i].begin, cut);
      for (const uint32_t row : parts[i].rows) of_row[row] += pieces[i];
    }
    uint64_t needed = 0;
    for (const uint32_t count : of_row) needed += count > 1 ? count : 0;
    if (needed <= shape_.max_parts) break;
    for (uint32_t& cut : cuts) cut *= 2;
    PIE_CHECK(cuts[0] < 1U << 30);
  }

  TileList list{.parts = std::vector<RowParts>(limits_.size())};
  uint32_t next_part = 0;
  for (uint32_t row = 0; row < limits_.size(); ++row) {
    if (of_row[row] <= 1) continue;
    list.parts[row] = {next_part, 0};  // counted up below
    next_part += of_row[row];
  }
  // The longest tiles come first, so that none of them is left at the end.
  std::vector<size_t> order(parts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return (parts[i].end - parts[i].begin) / pieces[i]; });
  for (const size_t i : order) {
    const Part& part = parts[i];
    const uint32_t step =
        RoundUp(PiecesOf(part.end - part.begin, pieces[i]), part.large ? kLargeBlock : kKeyBlock);
    uint32_t all_see = ~0U;
    bool masked = false;
    for (const uint32_t row : part.rows) {
      all_see = std::min(all_see, limits_[row]);
      masked = masked || row_masks_[row] != kNone;
    }
    uint32_t begin = part.begin;
    for (uint32_t piece = 0; piece < pieces[i]; ++piece, begin += step) {
      const auto first_row = static_cast<uint32_t>(list.rows.size());
      for (const uint32_t row : part.rows) {
        const bool whole = of_row[row] <= 1;
        list.rows.push_back({row, whole ? kNone : list.parts[row].first + list.parts[row].count++});
      }
      (part.large ? list.large : list.small)
          .push_back({.first_row = first_row,
                      .rows = static_cast<uint32_t>(part.rows.size()),
                      .first_page = part.first_page,
                      .begin_key = std::min(begin, part.end),
                      .end_key = std::min(begin + step, part.end),
                      .all_see = all_see,
                      .has_masks = masked ? 1U : 0U});
    }
  }
  return list;
}

}  // namespace pie::cuda
