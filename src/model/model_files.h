// ModelFiles: a model on disk, a GGUF file or a Hugging Face folder, in one form: its
// configuration, and its tensors by name. The two kinds name their tensors differently; naming()
// says which names to look for.
//
// Memory-mapped, immutable, move-only. Tensors live as long as the ModelFiles. Opening takes
// milliseconds for any size because weights are not read.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <variant>

#include "base/result.h"
#include "model/config.h"
#include "model/gguf.h"
#include "model/safetensors.h"
#include "model/tensor.h"

namespace pie {

class ModelFiles {
 public:
  enum class Naming { kGguf, kHuggingFace };

  // A file is opened as GGUF. A folder needs config.json, and model.safetensors or
  // model.safetensors.index.json with its shards.
  static Result<ModelFiles> Open(const std::filesystem::path& path);

  const ModelConfig& config() const { return config_; }
  const TensorTable& tensors() const;
  Naming naming() const;
  const std::string& name() const { return name_; }  // the path, for errors
  // The file that holds a tensor, for errors.
  const std::string& FileOf(const Tensor& tensor) const;
  // Fails if a file was truncated while its tensors were read. Ask after reading.
  Status CheckWhole() const;
  // Releases bytes of a tensor that are no longer needed (MappedFile::Release).
  void Release(std::span<const std::byte> used) const;

 private:
  ModelFiles(std::string name, ModelConfig config, std::variant<Gguf, Safetensors> weights);

  std::string name_;
  ModelConfig config_;
  std::variant<Gguf, Safetensors> weights_;
};

}  // namespace pie
