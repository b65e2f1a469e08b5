// The functions of cuda_backend.h.
#include "backend/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "backend/cuda/device/device_backend.h"
#include "backend/cuda/device/device_weights.h"
#include "backend/cuda/kernels/runtime.h"
#include "model/fingerprint.h"
#include "model/model_files.h"

namespace pie {
namespace {

std::string Describe(const cuda::DeviceInfo& device) {
  return fmt::format("{}, {} GiB, compute capability {}.{}", device.name, device.memory_bytes >> 30,
                     device.major, device.minor);
}

}  // namespace

CudaStatus FindCudaDevices() {
  CudaStatus status{.built = true, .devices = {}, .problem = {}};
  for (const cuda::DeviceInfo& device : cuda::ListDevices(&status.problem)) {
    status.devices.push_back(Describe(device));
  }
  return status;
}

namespace {

// A model with two sets of rotary factors uses the long ones if the device can hold sequences that
// need them, for all sequences: keys stay in pages that later and longer sequences share.
void ChooseRopeFactors(const CudaOptions& options, ModelConfig& config) {
  if (config.rope.long_factors.empty()) return;
  uint64_t room = config.context_length;
  if (options.max_positions != 0) room = std::min<uint64_t>(room, options.max_positions);
  if (options.total_pages != 0) {
    room = std::min(room, uint64_t{options.total_pages} * options.page_tokens);
  }
  if (room > config.rope.original_context) config.rope.factors = config.rope.long_factors;
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeCudaBackend(const std::string& path,
                                                 const CudaOptions& options) {
  const ModelFiles files = PIE_TRY(ModelFiles::Open(path));
  ModelConfig config = files.config();
  ChooseRopeFactors(options, config);
  return cuda::DeviceBackend::Make(
      config, options, FingerprintOf(files), path, cuda::WeightBytes(files, options.weights),
      [&](cuda::Stream stream) {
        auto weights = cuda::LoadDeviceWeights(files, options.weights, stream, options.progress);
        if (const Status whole = files.CheckWhole(); !whole)
          weights = std::unexpected(whole.error());
        return weights;
      });
}

Result<std::unique_ptr<Backend>> MakeRandomCudaBackend(const ModelConfig& config,
                                                       const CudaOptions& options) {
  return cuda::DeviceBackend::Make(
      config, options, "random", "random weights", cuda::WeightBytes(config, options.weights),
      [&](cuda::Stream stream) {
        return cuda::MakeRandomWeights(config, options.weights, stream);
      });
}

}  // namespace pie
