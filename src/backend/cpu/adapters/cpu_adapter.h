// CpuAdapter: an adapter in the form of the kernels. Immutable, so any thread may read it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/adapter.h"
#include "backend/cpu/adapters/low_rank.h"
#include "model/adapter/adapter.h"
#include "model/config.h"

namespace pie::cpu {

class CpuAdapter final : public DeviceAdapter {
 public:
  // The weights fit the model. Costs one pass over them.
  CpuAdapter(CpuLevel level, const AdapterWeights& weights, const ModelConfig& config);

  size_t bytes() const override { return bytes_; }
  uint32_t max_rank() const { return max_rank_; }  // padded
  // The product of rank 0 changes nothing.
  const PackedLowRank& Of(uint32_t layer, AdapterTarget target) const {
    return layers_[layer][static_cast<size_t>(target)];
  }
  // Writes the signs of the noise on columns of the target's output, ⌈out / 64⌉ words.
  void Signs(int64_t seed, uint32_t layer, AdapterTarget target,
             std::vector<uint64_t>& signs) const;
  // The factor of those signs: scale × sigma × (v · A · x), where h is scale × A · x.
  static float SignedFactor(int64_t seed, float sigma, uint32_t layer, AdapterTarget target,
                            const float* h, uint32_t rank);
  uint32_t RankOf(uint32_t layer, AdapterTarget target) const {
    return ranks_[layer][static_cast<size_t>(target)];
  }

 private:
  // GGUF files of the llama family have the rows of q and k in another order.
  bool IsReordered(AdapterTarget target) const {
    return reordered_ && (target == AdapterTarget::kQ || target == AdapterTarget::kK);
  }

  std::vector<std::array<PackedLowRank, kAdapterTargets>> layers_;
  std::vector<std::array<uint32_t, kAdapterTargets>> ranks_;  // not padded
  const bool reordered_;
  const uint32_t head_dim_;
  size_t bytes_ = 0;
  uint32_t max_rank_ = 0;
};

// The row of Hugging Face's matrix that is row `row` of GGUF's, for heads whose rotated pairs are
// neighbours.
constexpr uint32_t OriginalRow(uint32_t row, uint32_t head_dim) {
  const uint32_t within = row % head_dim;
  return row - within + within % 2 * (head_dim / 2) + within / 2;
}

}  // namespace pie::cpu
