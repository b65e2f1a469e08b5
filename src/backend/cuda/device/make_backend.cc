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

// The length of the longest sequence that the device may hold.
uint64_t LongestSequence(const CudaOptions& options, const ModelConfig& config) {
  uint64_t longest = config.context_length;
  if (options.max_positions != 0) longest = std::min<uint64_t>(longest, options.max_positions);
  if (options.total_pages != 0) {
    longest = std::min(longest, uint64_t{options.total_pages} * options.page_tokens);
  }
  return longest;
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeCudaBackend(const std::string& path,
                                                 const CudaOptions& options) {
  const ModelFiles files = PIE_TRY(ModelFiles::Open(path));
  ModelConfig config = files.config();
  ChooseFactors(LongestSequence(options, config), config.rope);
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
