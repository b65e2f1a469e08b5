// Weights: a model's tensors in the form in which the kernels read them, the same for all
// architectures and kinds of files. Parts that an architecture does not have are empty.
//
// Every tensor's shape is checked against the configuration when it is loaded, so that kernels need
// not check. Everything is copied: the files may be closed afterwards. Immutable once loaded, so
// any thread may read it. Loading costs one pass over the files, and about as much memory as their
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

// Norms are [hidden] unless noted, with norm_offset already added.
struct LayerWeights {
  std::vector<float> attention_norm;
  Linear q;  // [heads × head_dim, hidden]
  Linear k;  // [kv_heads × head_dim, hidden]
  Linear v;  // the same
  Linear o;  // [hidden, heads × head_dim]
  // [head_dim] (QkNorm::kHead), or one weight per row of q and k
  std::vector<float> q_norm, k_norm;
  std::vector<float> sinks;  // [heads]
  std::vector<float> attention_post_norm;

  std::vector<float> ffn_norm;
  FeedForwardWeights ffn;                   // for dense layers
  Linear router;                            // [experts, hidden]
  std::vector<FeedForwardWeights> experts;  // [experts]
  std::vector<float> ffn_post_norm;
};

struct Weights {
  std::unique_ptr<Arena> arena;  // owns the memory of the matrices
  PackedMatrix embedding;        // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;
  PackedMatrix output;  // [vocab, hidden]; no rows: the embedding is used

  const PackedMatrix& head() const { return output.rows() != 0 ? output : embedding; }
};

// Fails if a tensor is missing or has the wrong shape or type, or if memory runs out. `progress`
// may be empty.
Result<Weights> LoadWeights(const ModelFiles& files, const LoadProgress& progress = {});

}  // namespace pie::cpu
