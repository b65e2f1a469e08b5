// AdapterWeights: a LoRA adapter in host memory. It adds scale · B · A to some of a model's
// matrices, where A is [rank, in] and B is [out, rank].
//
// Rows and columns are in the order of Hugging Face's model, whatever file the model itself came
// from; a device reorders them where its own weights are in another order. A plain value, immutable
// once it is shared.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/config.h"

namespace pie {

// The matrices that an adapter may change: those of a layer, then the two ends of the model.
enum class AdapterTarget : uint8_t { kQ, kK, kV, kO, kGate, kUp, kDown, kEmbedding, kHead };
inline constexpr size_t kAdapterTargets = 7;  // of a layer
inline constexpr size_t kExpertTargets = 3;   // of them, those that each expert has

// The name of the module in a layer: "q_proj", "down_proj", …
std::string_view NameOf(AdapterTarget target);

// The place of a matrix in its layer. Gate, up and down of expert e follow those of expert e - 1. A
// model without experts has them as expert 0. The ends are two places of a layer of their own.
constexpr uint32_t AdapterSlot(AdapterTarget target, uint32_t expert = 0) {
  if (target >= AdapterTarget::kEmbedding) return target == AdapterTarget::kHead ? 1 : 0;
  const bool each = target >= AdapterTarget::kGate;
  return static_cast<uint32_t>(target) + (each ? expert * kExpertTargets : 0);
}

// The sizes of a model's matrices, which an adapter has to fit.
struct AdapterShape {
  struct Matrix {
    uint32_t in = 0;
    uint32_t out = 0;  // 0: adapters cannot change this matrix
  };
  uint32_t layers = 0;   // 0: the device takes no adapters
  uint32_t experts = 0;  // 0: the feed-forward part of a layer is one
  std::array<Matrix, kAdapterTargets> targets;
  Matrix embedding;  // from tokens (one per row) to the hidden size
  Matrix head;
  // Files have one matrix for q, k and v, and one for gate and up (Phi 3).
  bool fused = false;
  // Files have the rows of an expert's gate and up in turn (gpt-oss).
  bool interleaved = false;

  const Matrix& Of(AdapterTarget target) const {
    if (target == AdapterTarget::kEmbedding) return embedding;
    if (target == AdapterTarget::kHead) return head;
    return targets[static_cast<size_t>(target)];
  }
  // The number of matrices in a layer of an adapter. Layer `layers` has the ends.
  uint32_t slots(uint32_t layer) const;
  AdapterTarget TargetAt(uint32_t layer, uint32_t slot) const;
};

AdapterShape AdapterShapeOf(const ModelConfig& config);

struct LowRank {
  uint32_t rank = 0;     // 0: this matrix is not changed
  float alpha = 0;       // as files have it
  float scale = 0;       // the factor of B · A
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [out, rank]
};

struct AdapterWeights {
  using Layer = std::vector<LowRank>;  // by slot
  // [layers + 1]; the last one has the embedding and the head; empty: it changes nothing
  std::vector<Layer> layers;
  bool rslora = false;  // scale is alpha / √rank instead of alpha / rank

  bool empty() const { return layers.empty(); }
  // Numbers of all matrices together.
  uint64_t parameters() const;
  uint32_t max_rank() const;
};

float AdapterScale(float alpha, uint32_t rank, bool rslora);

// An adapter of this shape whose matrices all have rank 0.
AdapterWeights EmptyAdapter(const AdapterShape& shape);

// An adapter of one rank on the projections of all layers, which changes nothing yet: B is 0. The
// numbers of A are uniform in ±√(3 / in), and depend on their places alone. Experts, the embedding
// and the head are left out: they would make it several times as large.
Result<AdapterWeights> MakeAdapter(const AdapterShape& shape, uint32_t rank, float alpha);
// The numbers of its matrices together.
Result<uint64_t> ParametersOfNew(const AdapterShape& shape, uint32_t rank);

// Fails unless the adapter has the sizes of the shape: a file may belong to another model.
Status CheckFits(const AdapterWeights& weights, const AdapterShape& shape);

}  // namespace pie
