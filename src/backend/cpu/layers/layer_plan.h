// The operations of a forward pass as a list. The list and the weights define an architecture.
//
// Made once when a model is loaded, then run front to back for every batch, between the embedding
// and the output layer. One operation covers everything that is worth fusing: a residual addition
// with the norms around it, or attention with its rotation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/weights/weights.h"
#include "model/config.h"

namespace pie::cpu {

// The set of rotary angles that a layer uses.
enum class RopeTableId : uint8_t { kMain, kSliding };

struct Operation {
  enum class Kind : uint8_t {
    kResidual,     // x += post_norm(delta + bias), then hidden = norm(x)
    kProject,      // q, k, v of hidden; norms of heads, rotation; k and v into the pages
    kAttend,       // delta = o · attention(q, pages)
    kFeedForward,  // delta = down · activation(gate · hidden, up · hidden)
    kExperts,      // the same with the experts that the router picks
  };

  Kind kind = Kind::kResidual;
  uint32_t layer = 0;

  // For kResidual. A null pointer skips that part; without a norm, hidden is x.
  const float* bias = nullptr;
  const float* post_norm = nullptr;
  const float* norm = nullptr;
  bool has_delta = true;   // false before the first layer
  bool has_hidden = true;  // false after the last layer
  bool quantized = false;  // hidden is also needed as bytes

  // For kProject.
  RopeTableId rope = RopeTableId::kMain;
  // For kAttend.
  uint32_t window = 0;
};

// Makes the plan, which points into `weights`.
std::vector<Operation> MakePlan(const ModelConfig& config, const Weights& weights);

// Returns "residual(norm) project attend residual(norm) feed-forward …", for people.
std::string Describe(const std::vector<Operation>& plan);

}  // namespace pie::cpu
