// SnapshotStore: snapshots as files, in one folder for each user. The names of snapshots come from
// guests and never become paths: folders and files are named by hashes, and each file contains its
// user and name.
//
// Any thread and any number of processes of the system may use a store at once: files appear and
// vanish whole, and the quota is checked under a lock on the user's folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/limits.h"
#include "kv/snapshot_file.h"

namespace pie::host {

class SnapshotStore {
 public:
  SnapshotStore(std::string root, const Limits& limits) : root_(std::move(root)), limits_(limits) {}

  // The user, the model and the name of a snapshot.
  struct Key {
    std::string_view user, model, name;
  };
  struct Entry {
    SnapshotInfo info;
    uint32_t tokens = 0;
    uint64_t bytes = 0;
    std::string problem;  // why the file cannot be read; the other fields are empty then
    std::string path;
  };

  Result<std::shared_ptr<SnapshotFile>> Open(const Key& key) const;
  // Opens the snapshot and removes its name. If two callers try, one of them gets it.
  Result<std::shared_ptr<SnapshotFile>> Take(const Key& key) const;
  Status Delete(const Key& key) const;

  // Creates an unnamed file of `bytes` bytes for `key`. Fails if it would exceed the user's quota.
  Result<SnapshotWriter> Begin(const Key& key, uint64_t bytes) const;
  // Flushes the complete file to the disk and gives it its name. It replaces an older snapshot,
  // whose space is freed when the writer is destroyed.
  Status Commit(const Key& key, SnapshotWriter& writer, uint64_t bytes) const;

  std::vector<Entry> List() const;
  // The snapshots of one user, at most `most` of them.
  std::vector<Entry> ListOf(std::string_view user, size_t most) const;
  // Removes files that killed processes left behind.
  void RemoveAbandoned() const;

 private:
  std::string FolderOf(std::string_view user) const;
  static std::string FileOf(const Key& key);
  Status CheckQuota(const Key& key, uint64_t bytes) const;

  const std::string root_;
  const Limits& limits_;
};

Status CheckSnapshotName(std::string_view name);
std::unexpected<Error> NoSnapshot(std::string_view name);

}  // namespace pie::host
