// The CPU device. It runs models of all known architectures from GGUF files and Hugging Face
// folders, with weights quantised as they are in the file, and keys and values in pages of F16 or
// of bytes.
//
// On processors of the same CpuLevel, logits are the same, bit for bit, for any batch, chunking,
// page size and number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/attention/kv_layer.h"
#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/weights/weights.h"
#include "base/memory_limit.h"
#include "base/result.h"

namespace pie {

struct CpuOptions {
  uint32_t page_tokens = 16;
  uint32_t total_pages = 0;  // 0: as many as fit into kv_bytes
  // Memory for keys and values; becomes resident as it is written. 0: 1 GiB, or a quarter of what
  // the weights leave, if that is less.
  uint64_t kv_bytes = 0;
  uint64_t memory_bytes = ReadMemoryLimit().bytes();  // that weights, keys and values may take
  uint64_t prefault_bytes = 0;  // this much of kv_bytes is prefaulted in the background
  uint32_t threads = 0;         // 0: one per processor
  // longer prefills are chunked, so that other sequences can proceed
  uint32_t max_batch_tokens = 512;
  uint32_t max_batch_members = 256;
  uint32_t max_positions = 0;  // 0: the model's context length; never more than that
  cpu::KvType kv_type = cpu::KvType::kF16;
  cpu::CpuLevel level = cpu::DetectCpuLevel();
  cpu::LoadProgress progress = {};
};

// Opens `path`, a GGUF file or a folder with config.json and safetensors, and reads all of it; the
// files may be replaced afterwards. Fails if the files cannot be read, if they do not hold a model
// that this device can run, or if memory runs out.
//
// LongRope (Phi 3): if a sequence could grow beyond the original context (by max_positions and the
// number of pages), the long factors are used for all sequences, otherwise the short ones.
Result<std::unique_ptr<Backend>> MakeCpuBackend(const std::string& path, const CpuOptions& options);

// Returns the memory that the model would take. Fails as MakeCpuBackend does, but reads little.
Result<uint64_t> CpuMemoryOf(const std::string& path, const CpuOptions& options);

}  // namespace pie
