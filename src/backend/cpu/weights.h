// Weights: a model file's tensors in the form in which the kernels read them.
//
// Every tensor's shape is checked against the configuration before it is used, so what runs later
// need not ask. All is copied: the file may be closed afterwards. Immutable once loaded, so any
// thread may read it. Loading costs one pass over the file, and as much memory as it has tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "backend/cpu/arena.h"
#include "backend/cpu/repack.h"
#include "base/result.h"
#include "model/config.h"
#include "model/gguf.h"

namespace pie::cpu {

struct LayerWeights {
  std::vector<float> attention_norm;  // [hidden]
  PackedMatrix q;                     // [heads × head_dim, hidden]
  PackedMatrix k;                     // [kv_heads × head_dim, hidden]
  PackedMatrix v;                     // the same
  PackedMatrix o;                     // [hidden, heads × head_dim]
  std::vector<float> ffn_norm;        // [hidden]
  PackedMatrix gate;                  // [ffn, hidden]
  PackedMatrix up;                    // the same
  PackedMatrix down;                  // [hidden, ffn]
};

struct Weights {
  std::unique_ptr<Arena> arena;  // what the matrices lie in
  PackedMatrix embedding;        // [vocab, hidden]
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;      // [hidden]
  std::optional<PackedMatrix> output;  // [vocab, hidden]; none: it is the embedding

  const PackedMatrix& head() const { return output ? *output : embedding; }
};

// Bytes of the file's tensors that have been read, and of all that will be.
using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// kUnavailable when the configuration asks for something that this backend does not compute: models
// of the llama family run, dense and without a sliding window.
Status CheckSupported(const ModelConfig& config);

// Fails on a configuration that is not supported, on tensors that are missing or have another shape
// or type than they need, and when memory runs out. `progress` may be empty.
Result<Weights> LoadWeights(const Gguf& gguf, const ModelConfig& config,
                            const LoadProgress& progress = {});

}  // namespace pie::cpu
