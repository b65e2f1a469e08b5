// CpuAdapter: an adapter in the form of the kernels. Immutable, so any thread may read it.
#pragma once

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
  // The product of a matrix, by its slot (model/adapter/adapter.h). Rank 0 changes nothing. The
  // layer after the last one has the embedding and the head.
  const PackedLowRank& Of(uint32_t layer, uint32_t slot) const { return layers_[layer][slot]; }
  uint32_t ends() const { return static_cast<uint32_t>(layers_.size()) - 1; }  // that layer
  // Writes h = scale × A · x for a row that has this token alone: w.rank numbers.
  void ShrinkToken(uint32_t token, float* h) const;
  // Writes the signs of the noise on columns of the matrix's output, ⌈out / 64⌉ words.
  void Signs(int64_t seed, uint32_t layer, uint32_t slot, std::vector<uint64_t>& signs) const;
  // The factor of those signs: scale × sigma × (v · A · x), where h is scale × A · x.
  static float SignedFactor(int64_t seed, float sigma, uint32_t layer, uint32_t slot,
                            const float* h, uint32_t rank);
  uint32_t RankOf(uint32_t layer, uint32_t slot) const { return ranks_[layer][slot]; }

 private:
  // GGUF files of the llama family have the rows of q and k in another order.
  bool IsReordered(uint32_t layer, uint32_t slot) const {
    return reordered_ && layer < ends() && slot <= AdapterSlot(AdapterTarget::kK);
  }

  std::vector<std::vector<PackedLowRank>> layers_;
  std::vector<std::vector<uint32_t>> ranks_;  // not padded
  std::vector<uint16_t> token_rows_;          // A of the embedding, [vocab, padded rank]
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
