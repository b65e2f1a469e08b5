// The CPU device: models of all known architectures from GGUF files and Hugging Face folders, their
// weights quantised as they are in the file, keys and values in pages of F16 or of bytes.
//
// The same logits come out, bit for bit, whatever the batch, the chunking, the page size and the
// number of threads, on processors of the same CpuLevel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "backend/backend.h"
#include "backend/cpu/attention/kv_layer.h"
#include "backend/cpu/machine/cpu_features.h"
#include "backend/cpu/weights/weights.h"
#include "base/result.h"

namespace pie {

struct CpuOptions {
  uint32_t page_tokens = 16;
  uint32_t total_pages = 0;         // 0 = as many as fit into kv_bytes
  uint64_t kv_bytes = 1ULL << 30;   // taken from the system page by page, as they are written
  uint64_t take_ahead = 0;          // so much of it in the background, before it is written
  uint32_t threads = 0;             // 0 = one a processor
  uint32_t max_batch_tokens = 512;  // longer prefills come in chunks, so that others get their turn
  uint32_t max_batch_members = 256;
  uint32_t max_positions = 0;  // 0 = what the model knows; never more than that
  cpu::KvType kv_type = cpu::KvType::kF16;
  cpu::CpuLevel level = cpu::DetectCpuLevel();
  cpu::LoadProgress progress = {};
};

// `path` is a GGUF file, or a folder with config.json and safetensors. Reads all of it; the files
// may be replaced afterwards. Fails on files that cannot be read or do not hold a model that this
// device can run, and when memory runs out.
//
// LongRope (Phi 3): the long factors are used for all sequences if one could grow beyond the
// context that the model was first trained on (max_positions, and the room of all pages), else the
// short ones.
Result<std::unique_ptr<Backend>> MakeCpuBackend(const std::string& path, const CpuOptions& options);

}  // namespace pie
