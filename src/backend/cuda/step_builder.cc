#include "backend/cuda/step_builder.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/kernels/attention.h"
#include "backend/sampling.h"
#include "backend/softmax.h"
#include "base/random.h"
#include "base/result.h"
#include "base/round_up.h"

namespace pie::cuda {
namespace {

// Appends an array to the step's bytes and returns its offset. Arrays begin at multiples of 16.
template <class T>
uint32_t Append(std::vector<std::byte>& bytes, std::span<const T> array) {
  const size_t at = (bytes.size() + 15) / 16 * 16;
  bytes.resize(at + array.size_bytes());
  if (!array.empty()) std::memcpy(bytes.data() + at, array.data(), array.size_bytes());
  return static_cast<uint32_t>(at);
}
template <class T>
uint32_t Append(std::vector<std::byte>& bytes, const std::vector<T>& array) {
  return Append(bytes, std::span<const T>(array));
}

// Sorts the numbers, and removes duplicates.
void SortOut(std::vector<uint32_t>& numbers) {
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

// The index of a number in a sorted list that contains it.
uint32_t IndexOf(const std::vector<uint32_t>& sorted, uint32_t number) {
  return static_cast<uint32_t>(std::ranges::lower_bound(sorted, number) - sorted.begin());
}

constexpr uint32_t kLeastSharedKeys = 128;  // shorter prefixes are not worth a tile of their own
constexpr uint32_t kLargeBlock = 128;       // large tiles have multiples of this number of keys
constexpr uint32_t kFewRows = 16;           // a member with at most this many rows uses small tiles

}  // namespace

DrawKey DrawKeyOf(const Batch::Member& member, uint32_t row) {
  if (member.draws == nullptr || row < member.first_draw) return {member.seed, row};
  return (*member.draws)[row - member.first_draw];
}

uint32_t MaskIndexOf(const Batch::Member& member, uint32_t row) {
  return member.draws == nullptr || row < member.first_draw ? 0 : row - member.first_draw;
}

void StepBuilder::Build(const Batch& batch, BatchTicket ticket, StepPlan& plan) {
  plan.bytes.assign(sizeof(StepHeader), std::byte{0});
  plan.host_reads.clear();
  plan.state_rows.clear();
  plan.failures.clear();
  token_masks_.clear();
  plan.slots.assign(batch.members.size(), {});
  plan.chooses.assign(batch.members.size(), false);
  plan.rows = static_cast<uint32_t>(batch.tokens.size());
  StepHeader header{};
  header.ticket = ticket;
  header.rows = plan.rows;
  header.output = static_cast<uint32_t>(ticket % kRing);
  AddMasks(batch);
  AddRows(batch, header, plan);
  AddTiles(batch, header, plan);
  AddSamples(batch, ticket, header, plan);
  AddAdapters(batch, header, plan);
  std::vector<uint32_t> copies;
  for (const PageCopy& copy : batch.copies) {
    copies.push_back(copy.from.value);
    copies.push_back(copy.to.value);
  }
  header.page_copies = static_cast<uint32_t>(batch.copies.size());
  header.copies = Append(plan.bytes, copies);
  header.masks = Append(plan.bytes, row_masks_);
  header.mask_words = Append(plan.bytes, mask_words_);
  plan.has_large_tiles = header.large_tiles > 0;
  std::memcpy(plan.bytes.data(), &header, sizeof header);
}

void AdapterParts::Add(AdapterTarget target, bool has_experts) {
  embedding |= target == AdapterTarget::kEmbedding;
  head |= target == AdapterTarget::kHead;
  experts |= has_experts && target >= AdapterTarget::kGate && target <= AdapterTarget::kDown;
}

void AdapterParts::Add(const AdapterParts& other) {
  experts |= other.experts;
  embedding |= other.embedding;
  head |= other.head;
}

void StepBuilder::AddAdapters(const Batch& batch, StepHeader& header, StepPlan& plan) {
  plan.has_adapters = false;
  plan.adapter_parts = {};
  std::vector<AdapterUse> uses(plan.rows);
  for (const Batch::Member& member : batch.members) {
    if (member.adapter == nullptr) continue;
    plan.has_adapters = true;
    const auto seed = static_cast<uint64_t>(member.zo_seed);
    const bool negative = member.zo_seed < 0;
    AdapterUse use{};
    const auto& adapter = *static_cast<const StepAdapter*>(member.adapter);
    use.matrices = adapter.matrices();
    plan.adapter_parts.Add(adapter.parts());
    use.seed = negative ? -seed : seed;
    use.sigma = negative ? -member.zo_sigma : member.zo_sigma;
    std::fill_n(uses.begin() + member.first_row, member.rows, use);
  }
  if (plan.has_adapters) header.adapters = Append(plan.bytes, uses);
}

void StepBuilder::AddRows(const Batch& batch, StepHeader& header, StepPlan& plan) {
  std::vector<uint32_t> sources(plan.rows, kNone);
  std::vector<uint64_t> places(plan.rows);
  limits_.assign(plan.rows, 0);
  for (const Batch::CarriedToken& carried : batch.carried) {
    PIE_CHECK(carried.row < plan.rows && carried.member < shape_.max_members);
    sources[carried.row] =
        static_cast<uint32_t>(carried.batch % kRing) * shape_.max_members + carried.member;
  }
  std::vector<uint32_t> pages;
  pages.reserve(batch.pages.size());
  for (const PageId page : batch.pages) pages.push_back(page.value);
  for (const Batch::Member& member : batch.members) {
    PIE_CHECK(member.first_row + member.rows <= plan.rows);
    PIE_CHECK(uint64_t{member.kv_tokens} + member.rows <=
              uint64_t{member.pages} * shape_.page_tokens);
    for (uint32_t i = 0; i < member.rows; ++i) {
      const uint32_t slot = member.kv_tokens + i;
      const uint32_t page = pages[member.first_page + slot / shape_.page_tokens];
      places[member.first_row + i] =
          uint64_t{page} * shape_.page_tokens + slot % shape_.page_tokens;
      limits_[member.first_row + i] = slot + 1;
    }
  }
  header.tokens = Append(plan.bytes, batch.tokens);
  header.sources = Append(plan.bytes, sources);
  header.positions = Append(plan.bytes, batch.positions);
  header.places = Append(plan.bytes, places);
  header.limits = Append(plan.bytes, limits_);
  header.pages = Append(plan.bytes, pages);
}

// Expands run lengths to bits: the runs below `limit`, in `bits` bits of room.
uint32_t StepBuilder::AddMaskBits(const Brle& mask, uint32_t limit, uint32_t bits) {
  const size_t at = mask_words_.size();
  mask_words_.resize(at + (bits + 31) / 32);
  uint32_t* const words = &mask_words_[at];
  ForEachTrueRun(mask, limit, [&](uint32_t begin, uint32_t end) {
    while (begin < end) {
      const uint32_t stop = std::min(end, begin / 32 * 32 + 32);
      words[begin / 32] |= ~0U >> (32 - (stop - begin)) << (begin % 32);
      begin = stop;
    }
  });
  return static_cast<uint32_t>(at);
}

void StepBuilder::AddMasks(const Batch& batch) {
  mask_words_.clear();
  row_masks_.assign(batch.tokens.size(), kNone);
  logit_masks_.assign(batch.members.size(), kNone);
  for (size_t m = 0; m < batch.members.size(); ++m) {
    const Batch::Member& member = batch.members[m];
    if (member.logit_mask != nullptr && member.samples != nullptr) {
      logit_masks_[m] = AddMaskBits(*member.logit_mask, shape_.vocab, shape_.vocab);
    }
    if (member.attention == nullptr) continue;
    for (uint32_t row = 0; row < member.rows; ++row) {
      const size_t at = size_t{member.pass_row} + row;
      if (at >= member.attention->size()) continue;  // causal
      const uint32_t keys = member.kv_tokens + row + 1;
      row_masks_[member.first_row + row] = AddMaskBits((*member.attention)[at], keys, keys);
    }
  }
}

// Waits for a mask that is still being made. Passes with such masks are never submitted before the
// batch whose token the mask depends on has been waited for.
uint32_t StepBuilder::LogitMaskOf(const Batch& batch, uint32_t m, uint32_t row, StepPlan& plan) {
  const Batch::Member& member = batch.members[m];
  if (member.masks == nullptr) return logit_masks_[m];
  const uint32_t index = MaskIndexOf(member, row);
  const auto [at, is_new] = token_masks_.try_emplace({m, index}, kNone);
  if (!is_new) return at->second;
  const Result<std::span<const uint32_t>> bits = member.masks->Bits(index);
  const size_t words = (shape_.vocab + 31) / 32;
  if (!bits || bits->size() < words) {
    plan.failures.emplace_back(
        m, bits ? Error{Code::kInternal, "a mask has fewer bits than the vocabulary has tokens"}
                : bits.error());
    return kNone;
  }
  at->second = static_cast<uint32_t>(mask_words_.size());
  mask_words_.insert(mask_words_.end(), bits->begin(),
                     bits->begin() + static_cast<std::ptrdiff_t>(words));
  return at->second;
}

bool StepBuilder::IsFew(const Batch::Member& member) const {
  return member.rows <= kFewRows && shape_.group <= kSmallTileLines;
}

// Members with few rows whose page tables begin with the same pages form a prefix.
void StepBuilder::FindPrefixes(const Batch& batch) {
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

struct StepBuilder::Part {
  std::vector<uint32_t> rows;
  uint32_t first_page;
  uint32_t begin;
  uint32_t end;
  bool large;
};

// Which rows read which keys together.
std::vector<StepBuilder::Part> StepBuilder::PartsOf(const Batch& batch) {
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
void StepBuilder::AddFixedTiles(const std::vector<Part>& parts, StepHeader& header,
                                StepPlan& plan) {
  const uint32_t cut = shape_.fixed_cut;
  std::vector<RowParts> row_parts(plan.rows);
  uint32_t next_part = 0;
  for (uint32_t row = 0; row < plan.rows; ++row) {
    const uint32_t count = (limits_[row] + cut - 1) / cut;
    if (count <= 1) continue;
    row_parts[row] = {next_part, count};
    next_part += count;
  }
  PIE_CHECK(next_part <= shape_.max_parts);
  std::vector<AttentionTile> tiles[2];
  std::vector<TileRow> tile_rows;
  for (const Part& part : parts) {
    for (uint32_t begin = part.begin; begin < part.end; begin += cut) {
      AttentionTile tile{.first_row = static_cast<uint32_t>(tile_rows.size()),
                         .rows = 0,
                         .first_page = part.first_page,
                         .begin_key = begin,
                         .end_key = std::min(begin + cut, part.end),
                         .all_see = ~0U,
                         .has_masks = 0};
      for (const uint32_t row : part.rows) {
        if (limits_[row] <= begin) continue;
        const RowParts& of = row_parts[row];
        tile_rows.push_back({row, of.count == 0 ? kNone : of.first + begin / cut});
        ++tile.rows;
        tile.all_see = std::min(tile.all_see, limits_[row]);
        if (row_masks_[row] != kNone) tile.has_masks = 1;
      }
      if (tile.rows > 0) tiles[part.large ? 1 : 0].push_back(tile);
    }
  }
  AppendTiles(tiles, tile_rows, row_parts, header, plan);
}

void StepBuilder::AppendTiles(std::vector<AttentionTile> (&tiles)[2],
                              const std::vector<TileRow>& tile_rows,
                              const std::vector<RowParts>& row_parts, StepHeader& header,
                              StepPlan& plan) {
  header.small_tiles = static_cast<uint32_t>(tiles[0].size());
  header.large_tiles = static_cast<uint32_t>(tiles[1].size());
  tiles[0].insert(tiles[0].end(), tiles[1].begin(), tiles[1].end());
  header.tiles = Append(plan.bytes, tiles[0]);
  header.tile_rows = Append(plan.bytes, tile_rows);
  header.row_parts = Append(plan.bytes, row_parts);
  plan.has_parts = std::ranges::any_of(row_parts, [](RowParts parts) { return parts.count > 0; });
}

namespace {

uint32_t PiecesOf(uint32_t keys, uint32_t cut) {
  return (keys + cut - 1) / cut;
}

}  // namespace

// Long parts are cut so that every multiprocessor has work. Two small tiles fit on one.
uint32_t StepBuilder::SmallCut(const std::vector<Part>& parts) const {
  uint64_t work = 0;
  for (const Part& part : parts) {
    if (!part.large) work += uint64_t{part.end - part.begin} * shape_.kv_heads;
  }
  return static_cast<uint32_t>(
      std::max<uint64_t>(RoundUp<uint64_t>(work / (2 * shape_.processors), kKeyBlock), kKeyBlock));
}

// A multiprocessor has one large tile at a time. The cut is chosen so that the last of them is done
// first, by how long the longest list of tiles takes.
uint32_t StepBuilder::LargeCut(const std::vector<Part>& parts) const {
  // Measured in keys: what a tile costs beside them, and what merging its results costs.
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

void StepBuilder::AddTiles(const Batch& batch, StepHeader& header, StepPlan& plan) {
  const std::vector<Part> parts = PartsOf(batch);
  if (shape_.fixed_cut != 0) return AddFixedTiles(parts, header, plan);

  uint32_t cuts[2] = {SmallCut(parts), LargeCut(parts)};
  std::vector<uint32_t> pieces(parts.size());
  std::vector<uint32_t> of_row(plan.rows);
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

  std::vector<RowParts> row_parts(plan.rows);
  uint32_t next_part = 0;
  for (uint32_t row = 0; row < plan.rows; ++row) {
    if (of_row[row] <= 1) continue;
    row_parts[row] = {next_part, 0};  // counted up below
    next_part += of_row[row];
  }
  // The longest tiles come first, so that none of them is left at the end.
  std::vector<size_t> order(parts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](size_t i) { return (parts[i].end - parts[i].begin) / pieces[i]; });
  std::vector<AttentionTile> tiles[2];
  std::vector<TileRow> tile_rows;
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
      const auto first_row = static_cast<uint32_t>(tile_rows.size());
      for (const uint32_t row : part.rows) {
        const bool whole = of_row[row] <= 1;
        tile_rows.push_back({row, whole ? kNone : row_parts[row].first + row_parts[row].count++});
      }
      tiles[part.large ? 1 : 0].push_back({.first_row = first_row,
                                           .rows = static_cast<uint32_t>(part.rows.size()),
                                           .first_page = part.first_page,
                                           .begin_key = std::min(begin, part.end),
                                           .end_key = std::min(begin + step, part.end),
                                           .all_see = all_see,
                                           .has_masks = masked ? 1U : 0U});
    }
  }
  AppendTiles(tiles, tile_rows, row_parts, header, plan);
}

void StepBuilder::AddSamples(const Batch& batch, BatchTicket ticket, StepHeader& header,
                             StepPlan& plan) {
  using Kind = SampleSpec::Kind;
  std::vector<uint32_t> reads;
  const auto for_each = [&](auto&& visit) {
    for (uint32_t m = 0; m < batch.members.size(); ++m) {
      const Batch::Member& member = batch.members[m];
      if (member.samples == nullptr) continue;
      for (uint32_t spec = 0; spec < member.samples->size(); ++spec) {
        for (const uint32_t row : (*member.samples)[spec].rows) {
          if (row < member.pass_row || row - member.pass_row >= member.rows) continue;
          visit(m, spec, row, member.first_row + (row - member.pass_row));
        }
      }
    }
  };
  for_each([&](uint32_t m, uint32_t spec, uint32_t, uint32_t at) {
    const bool of_logits = ReadsLogits((*batch.members[m].samples)[spec]);
    (of_logits ? reads : plan.state_rows).push_back(at);
  });
  SortOut(reads);
  SortOut(plan.state_rows);

  std::vector<SampleItem> items;
  std::vector<ProbeItem> probes;
  std::vector<uint32_t> ids;
  plan.tokens = plan.values = 0;
  for_each([&](uint32_t m, uint32_t spec, uint32_t row, uint32_t at) {
    const Batch::Member& member = batch.members[m];
    const SampleSpec& sample = (*member.samples)[spec];
    std::vector<SlotPlan>& slots = plan.slots[m];
    if (!ReadsLogits(sample)) {
      slots.push_back({SlotPlan::Kind::kEmbedding, IndexOf(plan.state_rows, at), 1, spec, row});
      return;
    }
    const uint32_t read = IndexOf(reads, at);
    if (sample.kind < SampleSpec::kFirstProbe) {
      const bool first = slots.empty();
      const uint32_t draws = SlotsPerRow(sample);
      SampleItem item{};
      item.read = read;
      item.draws = draws;
      item.mask = LogitMaskOf(batch, m, row, plan);
      item.slot = plan.tokens;
      item.chosen = first ? static_cast<uint32_t>(ticket % kRing) * shape_.max_members + m : kNone;
      const DrawKey key = DrawKeyOf(member, row);
      item.random = Mix(key.seed, spec, key.row);
      item.p = 1;
      const bool by_k =
          (sample.kind == Kind::kTopK || sample.kind == Kind::kTopKTopP) && sample.k > 0;
      const bool by_p =
          (sample.kind == Kind::kTopP || sample.kind == Kind::kTopKTopP) && sample.p < 1;
      if (!(sample.temperature > 0)) {
        item.kind = SampleItem::Kind::kGreedy;
      } else {
        item.inverse = InverseOf(sample.temperature);
        item.kind = by_k || by_p                 ? SampleItem::Kind::kByRank
                    : sample.kind == Kind::kMinP ? SampleItem::Kind::kMinP
                                                 : SampleItem::Kind::kById;
        item.k = by_k ? sample.k : 0;
        if (by_p || sample.kind == Kind::kMinP) item.p = sample.p;
      }
      items.push_back(item);
      slots.push_back({SlotPlan::Kind::kTokens, plan.tokens, draws, spec, row});
      plan.tokens += draws;
      if (first) plan.chooses[m] = true;
    } else if (sample.kind == Kind::kLogprobs && !sample.ids.empty()) {
      const auto count = static_cast<uint32_t>(sample.ids.size());
      probes.push_back({read, static_cast<uint32_t>(ids.size()), count, plan.values});
      ids.insert(ids.end(), sample.ids.begin(), sample.ids.end());
      slots.push_back({SlotPlan::Kind::kLogprobs, plan.values, count, spec, row});
      plan.values += count;
    } else if (sample.kind == Kind::kLogprobs) {
      slots.push_back({SlotPlan::Kind::kLogprobs, 0, 0, spec, row});
    } else if (sample.kind == Kind::kEntropy) {
      probes.push_back({read, 0, 0, plan.values});
      slots.push_back({SlotPlan::Kind::kEntropy, plan.values, 1, spec, row});
      ++plan.values;
    } else {
      plan.host_reads.push_back(read);
      slots.push_back({SlotPlan::Kind::kOnHost, read, 1, spec, row});
    }
  });
  SortOut(plan.host_reads);
  for (auto& slots : plan.slots) {
    for (SlotPlan& slot : slots) {
      if (slot.kind != SlotPlan::Kind::kOnHost) continue;
      slot.first = IndexOf(plan.host_reads, slot.first);
    }
  }
  // By read, so that the rows of logits can be computed some at a time.
  std::ranges::stable_sort(items, {}, &SampleItem::read);
  std::ranges::stable_sort(probes, {}, &ProbeItem::read);
  plan.reads = header.reads = static_cast<uint32_t>(reads.size());
  header.items = static_cast<uint32_t>(items.size());
  header.probes = static_cast<uint32_t>(probes.size());
  header.read_rows = Append(plan.bytes, reads);
  header.sample_items = Append(plan.bytes, items);
  header.probe_items = Append(plan.bytes, probes);
  header.ids = Append(plan.bytes, ids);
}

}  // namespace pie::cuda
