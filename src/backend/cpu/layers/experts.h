// Experts: a feed-forward layer of which each row uses a few parts, chosen by a router.
//
// Rows are gathered by expert, so that each expert's weights are read once a batch; what a row gets
// is summed in the order of its own choice, best expert first. So a row's result does not depend on
// the rest of the batch, as everywhere.
//
// Owner: one Transformer; it keeps its buffers, so one call at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/machine/thread_pool.h"
#include "backend/cpu/matmul/linear.h"
#include "backend/cpu/weights/weights.h"
#include "model/config.h"

namespace pie::cpu {

// The `used` largest of `logits`, best first (of equals, the first), and their shares: of all
// experts by softmax, or of those chosen alone. `chosen` and `shares` are [used].
void Route(std::span<const float> logits, bool renormalize, std::span<uint32_t> chosen,
           std::span<float> shares);

class Experts {
 public:
  Experts(const ModelConfig& config, CpuLevel level, ThreadPool& pool)
      : config_(config), level_(level), pool_(pool) {}

  // out [rows of x, hidden]. All rows of x are sealed.
  void Run(const LayerWeights& layer, const Activations& x, float* out);

 private:
  // Rows [begin, end) of a gathered matrix go through expert `expert`.
  struct Group {
    uint32_t expert, begin, end;
  };

  void RouteRows(const LayerWeights& layer, const Activations& x);
  void Gather(const Activations& x);
  // y [rows, stride] = x · wᵀ, each group by its own expert's matrix.
  void Multiply(const LayerWeights& layer, Linear FeedForwardWeights::* part, const Activations& x,
                float* y, size_t y_stride);

  const ModelConfig& config_;
  const CpuLevel level_;
  ThreadPool& pool_;
  std::vector<float> logits_;     // [rows, experts]
  std::vector<uint32_t> chosen_;  // [rows, used]
  std::vector<float> shares_;     // [rows, used]
  std::vector<uint32_t> place_;   // [rows, used]: the row of the matrices below
  std::vector<uint32_t> from_;    // [rows × used]: the row of x
  std::vector<Group> groups_;
  Activations gathered_;        // [rows × used, hidden]
  Activations gated_;           // [rows × used, ffn]
  std::vector<float> gate_up_;  // [rows × used, 2 × ffn]
  std::vector<float> down_;     // [rows × used, hidden]
};

}  // namespace pie::cpu
