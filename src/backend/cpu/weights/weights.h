// Weights: a model's tensors in the form in which the kernels read them, the same for all
// architectures and kinds of files. What an architecture lacks is empty.
//
// Every tensor's shape is checked against the configuration before it is used, so what runs later
// need not ask. All is copied: the files may be closed afterwards. Immutable once loaded, so any
// thread may read it. Loading costs one pass over the files, and as much memory as they have
// tensors.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/machine/arena.h"
#include "backend/cpu/matmul/repack.h"
#include "backend/cpu/weights/weight_reader.h"
#include "base/result.h"
#include "model/model_files.h"

namespace pie::cpu {

struct Linear {
  PackedMatrix w;           // [out, in]
  std::vector<float> bias;  // [out] or empty
};

struct FeedForwardWeights {
  Linear gate;  // [ffn, hidden]
  Linear up;    // the same
  Linear down;  // [hidden, ffn]
};

// Norms are [hidden] where nothing else is said, with their offset added.
struct LayerWeights {
  std::vector<float> attention_norm;
  Linear q;                           // [heads × head_dim, hidden]
  Linear k;                           // [kv_heads × head_dim, hidden]
  Linear v;                           // the same
  Linear o;                           // [hidden, heads × head_dim]
  std::vector<float> q_norm, k_norm;  // [head_dim] (QkNorm::kHead), or one weight a row of q and k
  std::vector<float> sinks;           // [heads]
  std::vector<float> attention_post_norm;

  std::vector<float> ffn_norm;
  FeedForwardWeights ffn;                   // of a dense layer
  Linear router;                            // [experts, hidden]
  std::vector<FeedForwardWeights> experts;  // [experts]
  std::vector<float> ffn_post_norm;
};

struct Weights {
  std::unique_ptr<Arena> arena;  // what the matrices lie in
  PackedMatrix embedding;        // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;
  PackedMatrix output;  // [vocab, hidden]; no rows: it is the embedding

  const PackedMatrix& head() const { return output.rows() != 0 ? output : embedding; }
};

// Fails on tensors that are missing or have another shape or type than they need, and when memory
// runs out. `progress` may be empty.
Result<Weights> LoadWeights(const ModelFiles& files, const LoadProgress& progress = {});

}  // namespace pie::cpu
