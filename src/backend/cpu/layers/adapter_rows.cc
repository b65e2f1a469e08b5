#include "backend/cpu/layers/adapter_rows.h"

#include <algorithm>
#include <functional>

namespace pie::cpu {
namespace {

// Columns of a wide output (the head's) that are worth a task of their own.
constexpr uint32_t kStripColumns = 4'096;

}  // namespace

void AdapterRows::Prepare(const Batch& batch) {
  batch_.uses.clear();
  batch_.tiles.clear();
  const bool any = std::ranges::any_of(
      batch.members, [](const Batch::Member& member) { return member.adapter != nullptr; });
  if (!any) return;
  batch_.uses.resize(batch.tokens.size());
  h_stride_ = 0;
  for (const Batch::Member& member : batch.members) {
    if (member.adapter == nullptr) continue;
    const auto* const adapter = static_cast<const CpuAdapter*>(member.adapter);
    const bool has_noise = member.zo_seed != 0 && member.zo_sigma != 0;
    std::fill_n(
        &batch_.uses[member.first_row], member.rows,
        Use{.adapter = adapter, .seed = has_noise ? member.zo_seed : 0, .sigma = member.zo_sigma});
    h_stride_ = std::max<size_t>(h_stride_, adapter->max_rank());
  }
  GrowBuffers(batch_);
  AddTiles(batch_, {0, 0, static_cast<uint32_t>(batch_.uses.size())});
}

void AdapterRows::Keep(std::span<const uint32_t> rows) {
  if (batch_.uses.empty()) return;
  for (size_t i = 0; i < rows.size(); ++i) batch_.uses[i] = batch_.uses[rows[i]];
  batch_.uses.resize(rows.size());
  batch_.tiles.clear();
  AddTiles(batch_, {0, 0, static_cast<uint32_t>(rows.size())});
}

void AdapterRows::Gather(std::span<const uint32_t> from, std::span<const ExpertRows> groups) {
  gathered_.uses.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) gathered_.uses[i] = batch_.uses[from[i]];
  GrowBuffers(gathered_);
  gathered_.tiles.clear();
  for (const ExpertRows& rows : groups) AddTiles(gathered_, rows);
}

void AdapterRows::GrowBuffers(RowSet& set) const {
  const size_t size = set.uses.size() * kInputs * h_stride_;
  if (set.h.size() < size) set.h.resize(size);
}

void AdapterRows::AddTiles(RowSet& set, const ExpertRows& rows) {
  order_.clear();
  for (uint32_t row = rows.begin; row < rows.end; ++row) {
    const CpuAdapter* const adapter = set.uses[row].adapter;
    if (adapter != nullptr && adapter->max_rank() > 0) order_.push_back(row);
  }
  std::ranges::stable_sort(order_, std::less<const CpuAdapter*>(),
                           [&](uint32_t row) { return set.uses[row].adapter; });
  const size_t first = set.tiles.size();
  for (const uint32_t row : order_) {
    const bool fits = set.tiles.size() > first && set.tiles.back().rows < kLowRankRows &&
                      set.uses[set.tiles.back().row[0]].adapter == set.uses[row].adapter;
    if (!fits) set.tiles.push_back({.expert = rows.expert});
    Tile& tile = set.tiles.back();
    tile.row[tile.rows++] = row;
  }
}

void AdapterRows::ShrinkTile(RowSet& set, const Tile& tile, uint32_t layer, AdapterTarget target,
                             size_t input, const Activations& x) const {
  const PackedLowRank& w =
      set.uses[tile.row[0]].adapter->Of(layer, AdapterSlot(target, tile.expert));
  if (w.rank == 0) return;
  LowRankTile<const float> from{.rows = tile.rows};
  LowRankTile<float> to{.rows = tile.rows};
  for (uint32_t i = 0; i < tile.rows; ++i) {
    from.row[i] = x.Row(tile.row[i]);
    to.row[i] = H(set, tile.row[i], input);
  }
  Shrink(level_, w, from, to);
}

void AdapterRows::ExpandRows(const RowSet& set, const Tile& tile, uint32_t layer,
                             AdapterTarget target, size_t input, uint32_t first, uint32_t count,
                             const LowRankTile<float>& y) const {
  const CpuAdapter& adapter = *set.uses[tile.row[0]].adapter;
  const uint32_t slot = AdapterSlot(target, tile.expert);
  const PackedLowRank& w = adapter.Of(layer, slot);
  if (w.rank == 0) return;
  LowRankTile<const float> from{.rows = tile.rows};
  for (uint32_t i = 0; i < tile.rows; ++i) from.row[i] = H(set, tile.row[i], input);
  Expand(level_, w, from, first, count, y);
  thread_local std::vector<uint64_t> signs;
  for (uint32_t i = 0; i < tile.rows; ++i) {
    const Use& use = set.uses[tile.row[i]];
    if (use.seed == 0) continue;
    adapter.Signs(use.seed, layer, slot, signs);
    const float z = CpuAdapter::SignedFactor(use.seed, use.sigma, layer, slot, from.row[i],
                                             adapter.RankOf(layer, slot));
    // `first` is a multiple of 16. Signs are bits, so the first word may be a partial one.
    for (uint32_t at = first, end = first + count; at < end;) {
      const uint32_t stop = std::min(end, at / 64 * 64 + 64);
      const uint64_t word = signs[at / 64] >> (at % 64);
      AddSigned(level_, &word, z, stop - at, y.row[i] + (at - first));
      at = stop;
    }
  }
}

void AdapterRows::AddEmbedding(uint32_t row, uint32_t token, std::span<float> x) {
  const CpuAdapter* const adapter = batch_.uses[row].adapter;
  if (adapter == nullptr || adapter->max_rank() == 0) return;
  const uint32_t ends = adapter->ends();
  if (adapter->Of(ends, AdapterSlot(AdapterTarget::kEmbedding)).rank == 0) return;
  adapter->ShrinkToken(token, H(batch_, row, 0));
  const Tile tile{.row = {row}, .rows = 1};
  ExpandRows(batch_, tile, ends, AdapterTarget::kEmbedding, 0, 0, static_cast<uint32_t>(x.size()),
             {.row = {x.data()}, .rows = 1});
}

void AdapterRows::Add(uint32_t layer, const Activations& x, std::initializer_list<Output> outputs) {
  pool_.ParallelFor(static_cast<uint32_t>(batch_.tiles.size()), [&](uint32_t index) {
    const Tile& tile = batch_.tiles[index];
    size_t input = 0;
    for (const Output& output : outputs) {
      const PackedLowRank& w =
          batch_.uses[tile.row[0]].adapter->Of(layer, AdapterSlot(output.target));
      ShrinkTile(batch_, tile, layer, output.target, input, x);
      LowRankTile<float> y{.rows = tile.rows};
      for (uint32_t i = 0; i < tile.rows; ++i) {
        y.row[i] = output.y + tile.row[i] * output.y_stride;
      }
      ExpandRows(batch_, tile, layer, output.target, input, 0, w.out, y);
      ++input;
    }
  });
}

void AdapterRows::AddGathered(uint32_t layer, const Activations& x,
                              std::initializer_list<Output> outputs) {
  const auto tiles = static_cast<uint32_t>(gathered_.tiles.size());
  uint32_t widest = 0;
  for (const Tile& tile : gathered_.tiles) {
    for (const Output& output : outputs) {
      widest = std::max(widest, gathered_.uses[tile.row[0]]
                                    .adapter->Of(layer, AdapterSlot(output.target, tile.expert))
                                    .out);
    }
  }
  if (widest == 0) return;  // no row's adapter changes these matrices
  pool_.ParallelFor(tiles, [&](uint32_t index) {
    size_t input = 0;
    for (const Output& output : outputs) {
      ShrinkTile(gathered_, gathered_.tiles[index], layer, output.target, input++, x);
    }
  });
  const uint32_t strips = (widest + kStripColumns - 1) / kStripColumns;
  pool_.ParallelFor(tiles * strips, [&](uint32_t index) {
    const Tile& tile = gathered_.tiles[index / strips];
    const uint32_t first = index % strips * kStripColumns;
    size_t input = 0;
    for (const Output& output : outputs) {
      const PackedLowRank& w =
          gathered_.uses[tile.row[0]].adapter->Of(layer, AdapterSlot(output.target, tile.expert));
      const size_t own = input++;
      if (first >= w.out) continue;
      LowRankTile<float> y{.rows = tile.rows};
      for (uint32_t i = 0; i < tile.rows; ++i) {
        y.row[i] = output.y + tile.row[i] * output.y_stride + first;
      }
      ExpandRows(gathered_, tile, layer, output.target, own, first,
                 std::min(kStripColumns, w.out - first), y);
    }
  });
}

void AdapterRows::BeginGated(uint32_t layer, const Activations& x) {
  gated_layer_ = layer;
  pool_.ParallelFor(static_cast<uint32_t>(batch_.tiles.size()), [&](uint32_t index) {
    ShrinkTile(batch_, batch_.tiles[index], layer, AdapterTarget::kGate, 0, x);
    ShrinkTile(batch_, batch_.tiles[index], layer, AdapterTarget::kUp, 1, x);
  });
}

void AdapterRows::AddColumns(const GatedPart& part) const {
  for (uint32_t at = 0; at < part.rows;) {
    const CpuAdapter* const adapter = batch_.uses[part.first_row + at].adapter;
    Tile tile;
    LowRankTile<float> gates;
    LowRankTile<float> ups;
    while (at < part.rows && tile.rows < kLowRankRows &&
           batch_.uses[part.first_row + at].adapter == adapter) {
      gates.row[tile.rows] = part.gates + at * part.stride;
      ups.row[tile.rows] = part.ups + at * part.stride;
      tile.row[tile.rows++] = part.first_row + at++;
    }
    if (adapter == nullptr || adapter->max_rank() == 0) continue;
    gates.rows = ups.rows = tile.rows;
    ExpandRows(batch_, tile, gated_layer_, AdapterTarget::kGate, 0, part.first_column, part.columns,
               gates);
    ExpandRows(batch_, tile, gated_layer_, AdapterTarget::kUp, 1, part.first_column, part.columns,
               ups);
  }
}

}  // namespace pie::cpu
