// DeviceWeights: a model's tensors in the device's memory, matrices in bfloat16 or packed
// (kernels/packed.h) and vectors in float. Parts that an architecture does not have are null.
//
// Heads and feed-forward widths are padded with zeros to multiples of 8, so that rows begin at
// multiples of 16 bytes. q, k and v are one matrix; gate and up are one, in groups of 8 rows each
// (kernels/product.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/kernels/packed.h"
#include "backend/cuda/kernels/runtime.h"
#include "base/result.h"
#include "model/model_files.h"

namespace pie::cuda {

// Device memory that is freed together.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Fails if there is not enough memory. The error names `what`, and how much is missing.
  Result<void*> Take(uint64_t bytes, const char* what);
  uint64_t bytes() const { return bytes_; }
  // Leaves the memory to the end of the process.
  void Abandon() { blocks_.clear(); }

 private:
  std::vector<void*> blocks_;
  uint64_t bytes_ = 0;
};

struct DeviceMatrix {
  const void* data = nullptr;
  const void* scales = nullptr;  // of packed weights
  WeightKind kind = WeightKind::kBf16;
  uint32_t rows = 0;
};

struct DeviceLayer {
  const float* attention_norm = nullptr;
  // [(heads + 2 × kv_heads) × head_stride, hidden], in one part, or if their kinds differ in three
  std::vector<DeviceMatrix> qkv;
  const float* qkv_bias = nullptr;  // its rows
  const float* q_norm = nullptr;
  const float* k_norm = nullptr;
  const float* sinks = nullptr;
  DeviceMatrix o;  // [hidden, heads × head_stride]
  const float* o_bias = nullptr;
  const float* attention_post_norm = nullptr;

  const float* ffn_norm = nullptr;
  const void* router = nullptr;  // [experts, hidden]
  const float* router_bias = nullptr;
  DeviceMatrix gate_up;                 // [2 × ffn_stride, hidden], or that for each expert
  const float* gate_up_bias = nullptr;  // its rows
  DeviceMatrix down;                    // [hidden, ffn_stride], or that for each expert
  const float* down_bias = nullptr;
  const float* ffn_post_norm = nullptr;
};

struct DeviceWeights {
  std::unique_ptr<DeviceMemory> memory;
  DeviceMatrix embedding;  // [vocab, hidden]
  DeviceMatrix output;     // the same; may be the embedding
  const float* output_norm = nullptr;
  std::vector<DeviceLayer> layers;
};

// Sizes of a model on this device.
struct DeviceShape {
  explicit DeviceShape(const ModelConfig& config);

  uint32_t head_stride;  // a multiple of 8
  uint32_t q_size;       // heads × head_stride
  uint32_t qkv_size;     // (heads + 2 × kv_heads) × head_stride
  uint32_t ffn_stride;   // of dense layers or experts, a multiple of 8
};

// The numbers of the largest packed matrix of a layer that rows are multiplied by as a whole.
uint64_t LargestPacked(const DeviceWeights& weights, const ModelConfig& config);

using LoadProgress = std::function<void(uint64_t done, uint64_t total)>;

// Reads, converts and copies all tensors. Conversion uses all processors.
Result<DeviceWeights> LoadDeviceWeights(const ModelFiles& files, CudaWeights kind, Stream stream,
                                        const LoadProgress& progress);

// Weights of the right sizes that keep activations in range.
Result<DeviceWeights> MakeRandomWeights(const ModelConfig& config, CudaWeights kind, Stream stream);

// The memory that a model's matrices take: of random weights, and about, without padding, of files.
uint64_t WeightBytes(const ModelConfig& config, CudaWeights kind);
uint64_t WeightBytes(const ModelFiles& files, CudaWeights kind);

// Fails if the kernels cannot run the model's shapes.
Status CheckShape(const ModelConfig& config, const std::string& name);

}  // namespace pie::cuda
