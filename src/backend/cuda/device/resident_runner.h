// ResidentRunner: the phases of a model's step of one row (kernels/resident_step.h), made once.
#pragma once

#include <memory>
#include <vector>

#include "backend/cuda/device/device_weights.h"
#include "backend/cuda/kernels/resident_step.h"
#include "base/result.h"
#include "model/config.h"

namespace pie::cuda {

// Activations of a row, which the StepRunner owns.
struct ResidentBuffers {
  float* x = nullptr;  // the residual stream, before the first layer and after the last
  float* logits = nullptr;
  const float* cosines = nullptr;  // [tables, pairs]
  const float* sines = nullptr;
};

class ResidentRunner {
 public:
  // Null if this device or this model cannot have such a step.
  static Result<std::unique_ptr<ResidentRunner>> Make(const ModelConfig& config,
                                                      const DeviceWeights& weights,
                                                      const KvShape& kv,
                                                      const ResidentBuffers& buffers,
                                                      Stream stream);
  // From the embedding to the logits of the row.
  void Run(const StepHeader* step, Stream stream);

 private:
  ResidentRunner() = default;

  DeviceMemory memory_;
  ResidentStep step_;
};

}  // namespace pie::cuda
