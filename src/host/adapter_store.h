// AdapterStore: adapters as files, one folder a user below one root, as SnapshotStore has contexts.
// Names come from guests and never become paths. A file is a safetensors file whose tensors are
// named as the PEFT package names them, and whose metadata says whose it is and how it is tuned.
//
// Any thread, and any number of processes at once: files appear and vanish whole.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/limits.h"
#include "model/adapter/adapter.h"
#include "model/adapter/zo.h"

namespace pie::host {

class AdapterStore {
 public:
  AdapterStore(std::string root, const Limits& limits) : root_(std::move(root)), limits_(limits) {}

  // The user, the model and the name of an adapter.
  struct Key {
    std::string_view user, model, name;
  };
  struct Content {
    AdapterWeights weights;
    ZoState zo;
  };
  struct Entry {
    std::string user, model, name;
    uint64_t bytes = 0;
    uint32_t rank = 0;
    uint32_t tensors = 0;
    ZoState zo;
    std::string problem;  // of a file that cannot be read; the rest is empty then
    std::string path;
  };

  // kNotFound: there is none. Fails if it does not fit `shape`.
  Result<Content> Read(const Key& key, const AdapterShape& shape) const;
  // Replaces an older file. Fails if it would exceed the user's quota.
  Status Write(const Key& key, const Content& content, const AdapterShape& shape) const;
  Status Delete(const Key& key) const;
  bool Exists(const Key& key) const;
  std::vector<Entry> List() const;

  // The content of a store's file, and of a PEFT folder with the same tensors.
  static Result<std::string> Encode(const Key& key, const Content& content,
                                    const AdapterShape& shape);
  // The two files of the PEFT folder that a file of the store stands for.
  struct Peft {
    std::string config, tensors;
  };
  static Result<Peft> ToPeft(const std::string& path);
  // A file of the store, made of such a folder. The adapter is not checked against a model here,
  // but when an inferlet opens it.
  Status Import(const Key& key, std::string_view config, std::string_view tensors) const;

 private:
  std::string FolderOf(std::string_view user) const;
  std::string PathOf(const Key& key) const;
  Status CheckQuota(const Key& key, uint64_t bytes) const;
  Status WriteBytes(const Key& key, std::string_view bytes) const;

  const std::string root_;
  const Limits& limits_;
};

Status CheckAdapterName(std::string_view name);
std::unexpected<Error> NoAdapter(std::string_view name);

}  // namespace pie::host
