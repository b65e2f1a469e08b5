// What stands between the two halves of a feed-forward layer.
//
// On the calling thread, element by element, bound by reading its inputs. Vector levels are within
// a few units in the last place of the reference.
#pragma once

#include <cstddef>

#include "backend/cpu/cpu_features.h"

namespace pie::cpu {

// out[i] = silu(gate[i]) × up[i], silu(x) = x / (1 + exp(-x)). All [n]; `out` may be either input.
void SiluGate(CpuLevel level, const float* gate, const float* up, size_t n, float* out);

}  // namespace pie::cpu
