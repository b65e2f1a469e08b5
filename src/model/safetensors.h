// Safetensors: a model's tensors in the safetensors format, in one file or in shards that an index
// lists. Immutable after opening, shared by threads; tensors point into the mappings.
//
// The files are not trusted: sizes and offsets are checked before use, and shards are looked for
// only in the folder of their index. Errors name the file and the tensor.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/mapped_file.h"
#include "model/tensor.h"

namespace pie {

class Safetensors {
 public:
  // `path` is a .safetensors file, an index (….safetensors.index.json), or a folder that has
  // model.safetensors.index.json or model.safetensors.
  static Result<Safetensors> Open(const std::filesystem::path& path);
  // Parses one file in bytes that the caller keeps alive. `name` is for errors.
  static Result<Safetensors> Parse(std::span<const std::byte> bytes, const std::string& name);

  const TensorTable& tensors() const { return tensors_; }
  // The file that holds a tensor's data. Empty after Parse.
  struct File {
    std::string name;
    MappedFile mapping;
  };
  const File* FileOf(std::span<const std::byte> data) const;
  const std::vector<File>& files() const { return files_; }
  // The free-form metadata of the header. Shards are merged; the first value of a key wins.
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  Safetensors() = default;
  static Result<Safetensors> OpenFile(const std::filesystem::path& path);
  static Result<Safetensors> OpenIndex(const std::filesystem::path& path);

  std::vector<File> files_;
  TensorTable tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace pie
