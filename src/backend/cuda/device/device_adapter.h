// An adapter in the device's memory, in the form of the kernels (kernels/low_rank.h).
#pragma once

#include <memory>

#include "backend/cuda/device/device_weights.h"
#include "backend/cuda/step_builder.h"
#include "model/adapter/adapter.h"

namespace pie::cuda {

// The weights fit the model. Any thread may call it; the device is the current one of this thread.
Result<std::shared_ptr<const StepAdapter>> MakeDeviceAdapter(const AdapterWeights& weights,
                                                             const ModelConfig& config);

}  // namespace pie::cuda
