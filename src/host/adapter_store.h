// AdapterStore: adapters as files, in one folder for each user below one root, as SnapshotStore
// keeps contexts. Names come from guests and never become paths. A file is a safetensors file whose
// tensors are named as the PEFT package names them. Its metadata holds the user, the model, the
// name and the state of tuning.
//
// Any thread and any number of processes of the system may use a store at once: files appear and
// vanish whole.
#pragma once

#include <cstdint>
#include <functional>
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
    std::string problem;  // why the file cannot be read; the other fields are empty then
    std::string path;
  };

  // Called with the bytes that the weights take in memory, before they take them. May be null.
  using TakeRoom = std::function<Status(uint64_t bytes)>;
  // Reads an adapter. Fails with kNotFound if there is none, and if it does not fit `shape`.
  Result<Content> Read(const Key& key, const AdapterShape& shape,
                       const TakeRoom& take_room = nullptr) const;
  // Replaces an older file. Fails if it would exceed the user's quota.
  Status Write(const Key& key, const Content& content, const AdapterShape& shape) const;
  Status Delete(const Key& key) const;
  bool Exists(const Key& key) const;
  std::vector<Entry> List() const;
  // Returns at most `most` adapters of one user.
  std::vector<Entry> ListOf(std::string_view user, size_t most) const;

  // Returns the bytes of a store's file.
  static Result<std::string> Encode(const Key& key, const Content& content,
                                    const AdapterShape& shape);
  // The two files of a PEFT folder.
  struct Peft {
    std::string config, tensors;
  };
  // Converts a file of the store to the files of a PEFT folder.
  static Result<Peft> ToPeft(const std::string& path);
  // Writes a file of the store from the files of a PEFT folder. The adapter is checked against its
  // model when an inferlet opens it, not here.
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
