#include "backend/cpu/adapters/cpu_adapter.h"

#include <algorithm>

#include "backend/cpu/machine/halves.h"
#include "model/adapter/zo.h"

namespace pie::cpu {
namespace {

uint32_t RoundUp(uint32_t size, uint32_t unit) {
  return (size + unit - 1) / unit * unit;
}

PackedLowRank Pack(CpuLevel level, const LowRank& part, uint32_t head_dim, bool reordered) {
  PackedLowRank packed;
  packed.rank = RoundUp(part.rank, kRankGroup);
  packed.in = static_cast<uint32_t>(part.a.size() / part.rank);
  packed.out = static_cast<uint32_t>(part.b.size() / part.rank);
  packed.scale = part.scale;
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
  packed.b.resize(size_t{RoundUp(packed.out, kLowRankLanes)} * packed.rank);
  for (uint32_t i = 0; i < packed.out; ++i) {
    const float* const from = &part.b[size_t{reordered ? OriginalRow(i, head_dim) : i} * part.rank];
    uint16_t* const to =
        &packed.b[size_t{i / kLowRankLanes} * packed.rank * kLowRankLanes + i % kLowRankLanes];
    StoreHalves(level, from, part.rank, to, kLowRankLanes);
  }
  return packed;
}

}  // namespace

CpuAdapter::CpuAdapter(CpuLevel level, const AdapterWeights& weights, const ModelConfig& config)
    : layers_(config.layers),
      ranks_(config.layers),
      reordered_(config.rope.pairing == RopeConfig::Pairing::kNeighbours),
      head_dim_(config.head_dim) {
  for (size_t layer = 0; layer < weights.layers.size(); ++layer) {
    for (const AdapterTarget target : kAllAdapterTargets) {
      const auto index = static_cast<size_t>(target);
      const LowRank& part = weights.layers[layer][index];
      if (part.rank == 0) continue;
      PackedLowRank& packed = layers_[layer][index];
      packed = Pack(level, part, head_dim_, IsReordered(target));
      ranks_[layer][index] = part.rank;
      bytes_ += packed.bytes();
      max_rank_ = std::max(max_rank_, packed.rank);
    }
  }
}

void CpuAdapter::Signs(int64_t seed, uint32_t layer, AdapterTarget target,
                       std::vector<uint64_t>& signs) const {
  const ZoNoise noise(seed, layer, target);
  const uint32_t out = Of(layer, target).out;
  signs.resize((out + 63) / 64);
  for (size_t i = 0; i < signs.size(); ++i) signs[i] = noise.Rows(i);
  if (!IsReordered(target)) return;
  thread_local std::vector<uint64_t> original;
  original = signs;
  for (uint64_t& word : signs) word = 0;
  for (uint32_t i = 0; i < out; ++i) {
    const uint32_t from = OriginalRow(i, head_dim_);
    signs[i / 64] |= (original[from / 64] >> (from % 64) & 1) << (i % 64);
  }
}

float CpuAdapter::SignedFactor(int64_t seed, float sigma, uint32_t layer, AdapterTarget target,
                               const float* h, uint32_t rank) {
  const ZoNoise noise(seed, layer, target);
  float sum = 0;
  uint64_t signs = 0;
  for (uint32_t j = 0; j < rank; ++j) {
    if (j % 64 == 0) signs = noise.Columns(j / 64);
    sum += (signs >> (j % 64) & 1) != 0 ? h[j] : -h[j];
  }
  return sum * noise.sign * sigma;
}

}  // namespace pie::cpu
