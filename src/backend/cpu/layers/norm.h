// RMSNorm: out[i] = x[i] / sqrt(mean(x²) + epsilon) × weight[i], for one row.
//
// Runs on the calling thread; rows are independent. Makes two passes over a row, the second from
// the cache.
#pragma once

#include <cstddef>

#include "backend/cpu/machine/cpu_features.h"

namespace pie::cpu {

// All are [n], n > 0. `out` may alias `x`.
void RmsNorm(CpuLevel level, const float* x, const float* weight, size_t n, float epsilon,
             float* out);

// Adds delta to x, then computes the norm of x, as needed between the two halves of a layer. `out`
// may alias `delta`.
void AddRmsNorm(CpuLevel level, float* x, const float* delta, const float* weight, size_t n,
                float epsilon, float* out);

}  // namespace pie::cpu
