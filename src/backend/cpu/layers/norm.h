// RMSNorm: out[i] = x[i] / sqrt(mean(x²) + epsilon) × weight[i], a row at a time.
//
// On the calling thread; rows are independent. Two passes over a row that is in cache by then.
#pragma once

#include <cstddef>

#include "backend/cpu/machine/cpu_features.h"

namespace pie::cpu {

// All [n], n > 0. `out` may be `x`.
void RmsNorm(CpuLevel level, const float* x, const float* weight, size_t n, float epsilon,
             float* out);

// x += delta, then the norm of x: what happens between two halves of a layer. `out` may be `delta`.
void AddRmsNorm(CpuLevel level, float* x, const float* delta, const float* weight, size_t n,
                float epsilon, float* out);

}  // namespace pie::cpu
