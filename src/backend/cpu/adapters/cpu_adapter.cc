#include "backend/cpu/adapters/cpu_adapter.h"

#include <algorithm>

#include "backend/cpu/machine/halves.h"
#include "base/round_up.h"
#include "model/adapter/zo.h"
#include "model/half.h"

namespace pie::cpu {
namespace {

// `by_token`: A is kept elsewhere.
PackedLowRank Pack(CpuLevel level, const LowRank& part, uint32_t head_dim, bool reordered,
                   bool by_token) {
  PackedLowRank packed;
  packed.rank = RoundUp(part.rank, kRankGroup);
  packed.in = static_cast<uint32_t>(part.a.size() / part.rank);
  packed.out = static_cast<uint32_t>(part.b.size() / part.rank);
  packed.scale = part.scale;
  packed.b.resize(size_t{RoundUp(packed.out, kLowRankLanes)} * packed.rank);
  for (uint32_t i = 0; i < packed.out; ++i) {
    const float* const from = &part.b[size_t{reordered ? OriginalRow(i, head_dim) : i} * part.rank];
    uint16_t* const to =
        &packed.b[size_t{i / kLowRankLanes} * packed.rank * kLowRankLanes + i % kLowRankLanes];
    StoreHalves(level, from, part.rank, to, kLowRankLanes);
  }
  if (by_token) return packed;
  const uint32_t blocks = RoundUp(packed.in, kLowRankLanes) / kLowRankLanes;
  packed.a.resize(size_t{packed.rank} * blocks * kLowRankLanes);
  for (uint32_t j = 0; j < part.rank; ++j) {
    const float* const from = &part.a[size_t{j} * packed.in];
    uint16_t* const to =
        &packed.a[(size_t{j / kRankGroup} * blocks * kRankGroup + j % kRankGroup) * kLowRankLanes];
    for (uint32_t i = 0; i < packed.in; i += kLowRankLanes) {
      StoreHalves(level, from + i, std::min(kLowRankLanes, packed.in - i),
                  to + size_t{i} * kRankGroup);
    }
  }
  return packed;
}

}  // namespace

CpuAdapter::CpuAdapter(CpuLevel level, const AdapterWeights& weights, const ModelConfig& config)
    : layers_(size_t{config.layers} + 1),
      ranks_(layers_.size()),
      reordered_(config.rope.pairing == RopeConfig::Pairing::kNeighbours),
      head_dim_(config.head_dim) {
  for (uint32_t layer = 0; layer < weights.layers.size(); ++layer) {
    const AdapterWeights::Layer& parts = weights.layers[layer];
    layers_[layer].resize(parts.size());
    ranks_[layer].resize(parts.size());
    for (uint32_t slot = 0; slot < parts.size(); ++slot) {
      if (parts[slot].rank == 0) continue;
      const bool by_token = layer == ends() && slot == AdapterSlot(AdapterTarget::kEmbedding);
      PackedLowRank& packed = layers_[layer][slot];
      packed = Pack(level, parts[slot], head_dim_, IsReordered(layer, slot), by_token);
      ranks_[layer][slot] = parts[slot].rank;
      bytes_ += packed.bytes();
      max_rank_ = std::max(max_rank_, packed.rank);
      if (!by_token) continue;
      token_rows_.resize(size_t{packed.in} * packed.rank);
      for (uint32_t j = 0; j < parts[slot].rank; ++j) {
        StoreHalves(level, &parts[slot].a[size_t{j} * packed.in], packed.in, &token_rows_[j],
                    packed.rank);
      }
      bytes_ += token_rows_.size() * sizeof(uint16_t);
    }
  }
}

void CpuAdapter::ShrinkToken(uint32_t token, float* h) const {
  const PackedLowRank& w = Of(ends(), AdapterSlot(AdapterTarget::kEmbedding));
  const uint16_t* const row = &token_rows_[size_t{token} * w.rank];
  for (uint32_t j = 0; j < w.rank; ++j) h[j] = HalfToFloat(row[j]) * w.scale;
}

void CpuAdapter::Signs(int64_t seed, uint32_t layer, uint32_t slot,
                       std::vector<uint64_t>& signs) const {
  const ZoNoise noise(seed, layer, slot);
  const uint32_t out = Of(layer, slot).out;
  signs.resize((out + 63) / 64);
  for (size_t i = 0; i < signs.size(); ++i) signs[i] = noise.Rows(i);
  if (!IsReordered(layer, slot)) return;
  thread_local std::vector<uint64_t> original;
  original = signs;
  for (uint64_t& word : signs) word = 0;
  for (uint32_t i = 0; i < out; ++i) {
    const uint32_t from = OriginalRow(i, head_dim_);
    signs[i / 64] |= (original[from / 64] >> (from % 64) & 1) << (i % 64);
  }
}

float CpuAdapter::SignedFactor(int64_t seed, float sigma, uint32_t layer, uint32_t slot,
                               const float* h, uint32_t rank) {
  const ZoNoise noise(seed, layer, slot);
  float sum = 0;
  uint64_t signs = 0;
  for (uint32_t j = 0; j < rank; ++j) {
    if (j % 64 == 0) signs = noise.Columns(j / 64);
    sum += (signs >> (j % 64) & 1) != 0 ? h[j] : -h[j];
  }
  return sum * noise.sign * sigma;
}

}  // namespace pie::cpu
