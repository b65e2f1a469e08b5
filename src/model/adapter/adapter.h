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

// The matrices of a layer that an adapter may change.
enum class AdapterTarget : uint8_t { kQ, kK, kV, kO, kGate, kUp, kDown };
inline constexpr size_t kAdapterTargets = 7;
inline constexpr std::array<AdapterTarget, kAdapterTargets> kAllAdapterTargets = {
    AdapterTarget::kQ,    AdapterTarget::kK,  AdapterTarget::kV,   AdapterTarget::kO,
    AdapterTarget::kGate, AdapterTarget::kUp, AdapterTarget::kDown};

// The name of the module in a layer: "q_proj", "down_proj", …
std::string_view NameOf(AdapterTarget target);

// The sizes of a model's matrices, which an adapter has to fit.
struct AdapterShape {
  struct Matrix {
    uint32_t in = 0;
    uint32_t out = 0;  // 0: adapters cannot change this matrix
  };
  uint32_t layers = 0;  // 0: the device takes no adapters
  std::array<Matrix, kAdapterTargets> targets;
  // Files have one matrix for q, k and v, and one for gate and up (Phi 3).
  bool fused = false;

  const Matrix& Of(AdapterTarget target) const { return targets[static_cast<size_t>(target)]; }
};

AdapterShape AdapterShapeOf(const ModelConfig& config);

struct LowRank {
  uint32_t rank = 0;     // 0: this matrix is not changed
  float alpha = 0;       // as files have it
  float scale = 0;       // what B · A is multiplied by
  std::vector<float> a;  // [rank, in]
  std::vector<float> b;  // [out, rank]
};

struct AdapterWeights {
  using Layer = std::array<LowRank, kAdapterTargets>;
  std::vector<Layer> layers;  // [layers]; empty: it changes nothing
  bool rslora = false;        // scale is alpha / √rank instead of alpha / rank

  bool empty() const { return layers.empty(); }
  // Numbers of all matrices together.
  uint64_t parameters() const;
  uint32_t max_rank() const;
};

float AdapterScale(float alpha, uint32_t rank, bool rslora);

// An adapter of one rank on all matrices that the shape has, which changes nothing yet: B is 0. The
// numbers of A are uniform in ±√(3 / in), and depend on their places alone.
Result<AdapterWeights> MakeAdapter(const AdapterShape& shape, uint32_t rank, float alpha);

// Fails unless the adapter has the sizes of the shape. A file may be of another model.
Status CheckFits(const AdapterWeights& weights, const AdapterShape& shape);

}  // namespace pie
