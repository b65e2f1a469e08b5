#include "backend/cpu/layers/adapter_rows.h"

#include <algorithm>
#include <functional>

namespace pie::cpu {

void AdapterRows::Prepare(const Batch& batch) {
  uses_.clear();
  tiles_.clear();
  const bool any = std::ranges::any_of(
      batch.members, [](const Batch::Member& member) { return member.adapter != nullptr; });
  if (!any) return;
  uses_.resize(batch.tokens.size());
  h_stride_ = 0;
  for (const Batch::Member& member : batch.members) {
    if (member.adapter == nullptr) continue;
    const auto* const adapter = static_cast<const CpuAdapter*>(member.adapter);
    const bool has_noise = member.zo_seed != 0 && member.zo_sigma != 0;
    std::fill_n(
        &uses_[member.first_row], member.rows,
        Use{.adapter = adapter, .seed = has_noise ? member.zo_seed : 0, .sigma = member.zo_sigma});
    h_stride_ = std::max<size_t>(h_stride_, adapter->max_rank());
  }
  const size_t size = uses_.size() * kInputs * h_stride_;
  if (h_.size() < size) h_.resize(size);
  MakeTiles();
}

void AdapterRows::Keep(std::span<const uint32_t> rows) {
  if (uses_.empty()) return;
  for (size_t i = 0; i < rows.size(); ++i) uses_[i] = uses_[rows[i]];
  uses_.resize(rows.size());
  MakeTiles();
}

void AdapterRows::MakeTiles() {
  order_.clear();
  for (uint32_t row = 0; row < uses_.size(); ++row) {
    if (uses_[row].adapter != nullptr && uses_[row].adapter->max_rank() > 0) order_.push_back(row);
  }
  std::ranges::stable_sort(order_, std::less<const CpuAdapter*>(),
                           [&](uint32_t row) { return uses_[row].adapter; });
  tiles_.clear();
  for (const uint32_t row : order_) {
    const bool fits = !tiles_.empty() && tiles_.back().rows < kLowRankRows &&
                      uses_[tiles_.back().row[0]].adapter == uses_[row].adapter;
    if (!fits) tiles_.emplace_back();
    Tile& tile = tiles_.back();
    tile.row[tile.rows++] = row;
  }
}

void AdapterRows::ShrinkTile(const Tile& tile, uint32_t layer, AdapterTarget target, size_t input,
                             const Activations& x) {
  const PackedLowRank& w = uses_[tile.row[0]].adapter->Of(layer, target);
  if (w.rank == 0) return;
  LowRankTile<const float> from{.rows = tile.rows};
  LowRankTile<float> to{.rows = tile.rows};
  for (uint32_t i = 0; i < tile.rows; ++i) {
    from.row[i] = x.Row(tile.row[i]);
    to.row[i] = H(tile.row[i], input);
  }
  Shrink(level_, w, from, to);
}

void AdapterRows::ExpandRows(const Tile& tile, uint32_t layer, AdapterTarget target, size_t input,
                             uint32_t first, uint32_t count, const LowRankTile<float>& y) const {
  const CpuAdapter& adapter = *uses_[tile.row[0]].adapter;
  const PackedLowRank& w = adapter.Of(layer, target);
  if (w.rank == 0) return;
  LowRankTile<const float> from{.rows = tile.rows};
  for (uint32_t i = 0; i < tile.rows; ++i) from.row[i] = H(tile.row[i], input);
  Expand(level_, w, from, first, count, y);
  thread_local std::vector<uint64_t> signs;
  for (uint32_t i = 0; i < tile.rows; ++i) {
    const Use& use = uses_[tile.row[i]];
    if (use.seed == 0) continue;
    adapter.Signs(use.seed, layer, target, signs);
    const float z = CpuAdapter::SignedFactor(use.seed, use.sigma, layer, target, from.row[i],
                                             adapter.RankOf(layer, target));
    // `first` is a multiple of 16, and signs are bits: the first word may be a rest.
    for (uint32_t at = first, end = first + count; at < end;) {
      const uint32_t stop = std::min(end, at / 64 * 64 + 64);
      const uint64_t word = signs[at / 64] >> (at % 64);
      AddSigned(level_, &word, z, stop - at, y.row[i] + (at - first));
      at = stop;
    }
  }
}

void AdapterRows::Add(uint32_t layer, const Activations& x, std::initializer_list<Output> outputs) {
  pool_.ParallelFor(static_cast<uint32_t>(tiles_.size()), [&](uint32_t index) {
    const Tile& tile = tiles_[index];
    size_t input = 0;
    for (const Output& output : outputs) {
      const PackedLowRank& w = uses_[tile.row[0]].adapter->Of(layer, output.target);
      ShrinkTile(tile, layer, output.target, input, x);
      LowRankTile<float> y{.rows = tile.rows};
      for (uint32_t i = 0; i < tile.rows; ++i) {
        y.row[i] = output.y + tile.row[i] * output.y_stride;
      }
      ExpandRows(tile, layer, output.target, input, 0, w.out, y);
      ++input;
    }
  });
}

void AdapterRows::BeginGated(uint32_t layer, const Activations& x) {
  gated_layer_ = layer;
  pool_.ParallelFor(static_cast<uint32_t>(tiles_.size()), [&](uint32_t index) {
    ShrinkTile(tiles_[index], layer, AdapterTarget::kGate, 0, x);
    ShrinkTile(tiles_[index], layer, AdapterTarget::kUp, 1, x);
  });
}

void AdapterRows::AddColumns(const GatedPart& part) const {
  for (uint32_t at = 0; at < part.rows;) {
    const CpuAdapter* const adapter = uses_[part.first_row + at].adapter;
    Tile tile;
    LowRankTile<float> gates;
    LowRankTile<float> ups;
    while (at < part.rows && tile.rows < kLowRankRows &&
           uses_[part.first_row + at].adapter == adapter) {
      gates.row[tile.rows] = part.gates + at * part.stride;
      ups.row[tile.rows] = part.ups + at * part.stride;
      tile.row[tile.rows++] = part.first_row + at++;
    }
    if (adapter == nullptr || adapter->max_rank() == 0) continue;
    gates.rows = ups.rows = tile.rows;
    ExpandRows(tile, gated_layer_, AdapterTarget::kGate, 0, part.first_column, part.columns, gates);
    ExpandRows(tile, gated_layer_, AdapterTarget::kUp, 1, part.first_column, part.columns, ups);
  }
}

}  // namespace pie::cpu
