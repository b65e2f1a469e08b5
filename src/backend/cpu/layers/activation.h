// What stands between the two halves of a feed-forward layer.
//
// On the calling thread, element by element, bound by reading its inputs. Vector levels are within
// a few units in the last place of the reference.
#pragma once

#include <cstddef>
#include <span>

#include "backend/cpu/machine/cpu_features.h"
#include "model/config.h"

namespace pie::cpu {

// out[i] = activation(gate[i], up[i]), as in model/config.h. All [n]; `out` may be either input.
void Gate(CpuLevel level, Activation activation, const float* gate, const float* up, size_t n,
          float* out);

// x[i] = cap × tanh(x[i] / cap)
void SoftCap(CpuLevel level, float cap, std::span<float> x);

// x += bias; x is as long. An empty bias adds nothing.
inline void AddBias(std::span<const float> bias, float* x) {
  for (size_t i = 0; i < bias.size(); ++i) x[i] += bias[i];
}

}  // namespace pie::cpu
