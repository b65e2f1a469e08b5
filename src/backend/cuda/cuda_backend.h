// The CUDA device: runs models of all known architectures on an NVIDIA GPU, with weights in
// bfloat16 or packed, and keys and values in bfloat16 or fp8. The kernels are an optional part of
// the build (make CUDA=1); the driver and cuBLASLt are loaded at run time. Where one of them is
// missing, every function here says so.
//
// Two batches may be in flight, and tokens that one chooses are fed to the next without the host.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "model/config.h"

namespace pie {

// How matrices are stored on the device.
enum class CudaWeights {
  kAsStored,  // fp8 and GGUF's Q8_0, Q4_0, Q4_1, Q4_K and Q6_K packed, all others in bfloat16
  kBf16,      // all in bfloat16
  kFp8,       // as stored, but those of the layers that would be bfloat16 are rounded to fp8
};

// How keys and values are stored.
enum class CudaKv {
  kBf16,
  kFp8,  // e4m3 with a power of two as scale, for each token and head
};

struct CudaOptions {
  int device = 0;
  uint32_t page_tokens = 32;
  uint32_t total_pages = 0;   // 0: as many as fit into the device's memory, by `memory_share`
  double memory_share = 0.9;  // of the memory that is free before the weights are loaded
  uint32_t max_batch_tokens = 2048;
  uint32_t max_batch_members = 256;
  CudaWeights weights = CudaWeights::kAsStored;
  CudaKv kv = CudaKv::kBf16;
  uint32_t max_positions = 0;  // 0: the model's context length; never more than that
  // A batch that takes longer takes the device out of service.
  uint32_t step_limit_ms = 120'000;
  bool graphs = true;  // steps of few rows run as recorded graphs
  // The same tokens whatever else is in the batch. It costs speed (docs/reference/gpu.md).
  bool deterministic = false;
  // For measurements: steps without one of their phases, whose results mean nothing.
  bool skip_products = false;
  bool skip_attention = false;
  // Called with the bytes of tensors read so far, and the total.
  std::function<void(uint64_t done, uint64_t total)> progress = {};
};

// The devices that this build and this machine have: one line per device, or the reason why there
// is none.
struct CudaStatus {
  bool built = false;
  std::vector<std::string> devices;  // "NVIDIA H200, 139 GiB, compute capability 9.0"
  std::string problem;               // empty if there is a device
};
CudaStatus FindCudaDevices();

// Opens `path`, a GGUF file or a folder with config.json and safetensors; the files may be replaced
// afterwards. Fails if the files cannot be read, if they do not hold a model that this device can
// run, or if the device's memory is too small.
Result<std::unique_ptr<Backend>> MakeCudaBackend(const std::string& path,
                                                 const CudaOptions& options);

// A model of the given shape with random weights, for measurements.
Result<std::unique_ptr<Backend>> MakeRandomCudaBackend(const ModelConfig& config,
                                                       const CudaOptions& options);

}  // namespace pie
