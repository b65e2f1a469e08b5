// SnapshotStore: snapshots as files, one folder a user below one root. Names come from guests and
// never become paths: folders and files are named by hashes, and each file says whose it is.
//
// Any thread, and any number of processes at once: files appear and vanish whole, and what counts
// them (the quota) does so under a lock on the user's folder.
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

  // Whose and which.
  struct Key {
    std::string_view user, model, name;
  };
  struct Entry {
    SnapshotInfo info;
    uint32_t tokens = 0;
    uint64_t bytes = 0;
    std::string problem;  // of a file that cannot be read; the rest is empty then
    std::string path;
  };

  Result<std::shared_ptr<SnapshotFile>> Open(const Key& key) const;
  // Opens it and removes its name; of two who try, one has it.
  Result<std::shared_ptr<SnapshotFile>> Take(const Key& key) const;
  Status Delete(const Key& key) const;

  // A file for `key` to be, of `bytes` bytes. Fails if the user may not have so many.
  Result<SnapshotWriter> Begin(const Key& key, uint64_t bytes) const;
  // Its content is complete. Puts it on the disk and gives it its name; replaces an older one.
  Status Commit(const Key& key, SnapshotWriter writer, uint64_t bytes) const;

  std::vector<Entry> List() const;
  // What killed processes left behind.
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
