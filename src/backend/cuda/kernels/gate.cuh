// The activation between the two halves of a feed-forward layer.
#pragma once

#include "backend/cuda/kernels/instructions.cuh"
#include "backend/cuda/kernels/product.h"

namespace pie::cuda {

__device__ inline float GateOf(GateKind kind, float x, float u) {
  float z = x;
  if (kind == GateKind::kGeluTanh) z = x * (1.5957691216F + 0.044715F * 1.5957691216F * x * x);
  if (kind == GateKind::kClampedSwiglu) {
    x = fminf(x, 7.0F);
    z = 1.702F * x;
    u = fmaxf(fminf(u, 7.0F), -7.0F) + 1;
  }
  return x / (1 + __expf(-z)) * u;
}

}  // namespace pie::cuda
