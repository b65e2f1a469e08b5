// The kernels' name of a model's activation.
#pragma once

#include "backend/cuda/kernels/product.h"
#include "model/config.h"

namespace pie::cuda {

inline GateKind GateKindOf(Activation activation) {
  switch (activation) {
    case Activation::kGeluTanh:
      return GateKind::kGeluTanh;
    case Activation::kClampedSwiglu:
      return GateKind::kClampedSwiglu;
    case Activation::kSilu:
      break;
  }
  return GateKind::kSilu;
}

}  // namespace pie::cuda
