// The operations of a forward pass, as a list: what an architecture is besides its weights.
//
// Made once when a model is loaded, then run for every batch from front to back, between the
// embedding and the output layer. Operations are as large as what is worth fusing: a residual
// addition with the norms around it, or attention with its rotation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/weights/weights.h"
#include "model/config.h"

namespace pie::cpu {

// Which angles a layer's rotation takes.
enum class RopeTableId : uint8_t { kMain, kSliding };

struct Operation {
  enum class Kind : uint8_t {
    kResidual,     // x += post_norm(delta + bias), then hidden = norm(x)
    kProject,      // q, k, v of hidden; norms of heads, rotation; k and v into the pages
    kAttend,       // delta = o · attention(q, pages)
    kFeedForward,  // delta = down · activation(gate · hidden, up · hidden)
    kExperts,      // the same, for the experts that the router picks
  };

  Kind kind = Kind::kResidual;
  uint32_t layer = 0;

  // kResidual. Null: not done; without a norm, hidden is x.
  const float* bias = nullptr;
  const float* post_norm = nullptr;
  const float* norm = nullptr;
  bool has_delta = true;   // not before the first layer
  bool has_hidden = true;  // not after the last one
  bool quantized = false;  // hidden is needed as bytes, too

  // kProject
  RopeTableId rope = RopeTableId::kMain;
  // kAttend
  uint32_t window = 0;
};

// Points into `weights`.
std::vector<Operation> MakePlan(const ModelConfig& config, const Weights& weights);

// "residual(norm) project attend residual(norm) feed-forward …", for people.
std::string Describe(const std::vector<Operation>& plan);

}  // namespace pie::cpu
