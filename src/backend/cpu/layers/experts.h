// Experts: a mixture-of-experts feed-forward layer. A router chooses a few experts for each row.
//
// Rows are gathered by expert, so that each expert's weights are read once per batch. A row's
// outputs are summed in the order of its own choice, best expert first, so the result does not
// depend on the rest of the batch.
//
// Owned by one Transformer. It keeps its buffers, so only one call may run at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/layers/adapter_rows.h"
#include "backend/cpu/layers/linear.h"
#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/machine/thread_pool.h"
#include "backend/cpu/weights/weights.h"
#include "model/config.h"

namespace pie::cpu {

// Finds the chosen.size() largest of `logits`, best first (the first among equals), and their
// shares: by softmax over the chosen ones if `renormalize`, otherwise over all experts. `shares` is
// as long as `chosen`.
void Route(std::span<const float> logits, bool renormalize, std::span<uint32_t> chosen,
           std::span<float> shares);

class Experts {
 public:
  Experts(const ModelConfig& config, CpuLevel level, ThreadPool& pool)
      : config_(config), level_(level), pool_(pool) {}

  // Writes out [rows of x, hidden]. All rows of x must be sealed. `adapters` may be null; otherwise
  // its rows are those of x.
  void Run(uint32_t index, const LayerWeights& layer, const Activations& x, AdapterRows* adapters,
           float* out);

 private:
  void RouteRows(const LayerWeights& layer, const Activations& x);
  void Gather(const Activations& x);
  // Computes y [rows, stride] = x · wᵀ, each group with the matrix of its own expert.
  void Multiply(const LayerWeights& layer, Linear FeedForwardWeights::* part, const Activations& x,
                float* y, size_t y_stride);

  const ModelConfig& config_;
  const CpuLevel level_;
  ThreadPool& pool_;
  std::vector<float> logits_;     // [rows, experts]
  std::vector<uint32_t> chosen_;  // [rows, used]
  std::vector<float> shares_;     // [rows, used]
  std::vector<uint32_t> place_;   // [rows, used]: the gathered row of each choice
  std::vector<uint32_t> from_;    // [rows × used]: the row of x that was gathered
  std::vector<ExpertRows> groups_;
  Activations gathered_;        // [rows × used, hidden]
  Activations gated_;           // [rows × used, ffn]
  std::vector<float> gate_up_;  // [rows × used, 2 × ffn]
  std::vector<float> down_;     // [rows × used, hidden]
};

}  // namespace pie::cpu
