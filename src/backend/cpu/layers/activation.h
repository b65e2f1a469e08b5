// The activation functions between the two matrix products of a feed-forward layer.
//
// They run on the calling thread, element by element, and are bound by reading their inputs. Vector
// levels are within a few units in the last place of the scalar reference.
#pragma once

#include <cstddef>
#include <span>

#include "backend/cpu/machine/cpu_features.h"
#include "model/config.h"

namespace pie::cpu {

// Sets out[i] to activation(gate[i], up[i]), as in model/config.h. All are [n]; `out` may alias
// either input.
void Gate(CpuLevel level, Activation activation, const float* gate, const float* up, size_t n,
          float* out);

// Sets x[i] to cap × tanh(x[i] / cap).
void SoftCap(CpuLevel level, float cap, std::span<float> x);

// Adds the bias to x, which is as long. An empty bias adds nothing.
inline void AddBias(std::span<const float> bias, float* x) {
  for (size_t i = 0; i < bias.size(); ++i) x[i] += bias[i];
}

}  // namespace pie::cpu
