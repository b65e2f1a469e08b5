// FolderWatch: limits the number of files and folders that a guest makes, and their depth. (The
// bridge counts the bytes that guests write: bridge/src/wasm/accounts.rs.) A thread of its own
// counts the files a few times a second, and stops a process that has made too many. Any thread may
// call it.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pie::host {

class Process;

class FolderWatch {
 public:
  // `max_scratch_entries` is for the /scratch folders of all users together.
  FolderWatch(size_t max_scratch_entries, uint32_t user_share_percent);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // Watches the folder until the process has ended. `name` is the guest's name of the folder.
  void Watch(const std::shared_ptr<Process>& process, std::string dir, std::string name,
             size_t max_bytes);

 private:
  struct Watched {
    std::weak_ptr<Process> process;
    std::string dir, name;
    size_t max_bytes;
  };
  void Run();
  void StopWhoHasMost(
      const std::vector<std::pair<std::shared_ptr<Process>, size_t>>& entries) const;

  const size_t max_scratch_entries_;
  const uint32_t user_share_percent_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched> watched_;
  bool stop_ = false;
  std::thread thread_;
};

// The greatest depth of nested folders that a guest may make.
inline constexpr size_t kMostFolders = 64;

struct FolderSize {
  size_t bytes = 0;    // on the disk
  size_t entries = 0;  // counted up to `max_entries` + 1
  size_t depth = 1;    // counted up to kMostFolders + 1
};
FolderSize MeasureFolder(const std::string& dir, size_t max_entries);

// Makes a folder that only this user of the machine may write to. Fails if the folder exists and
// another user may write to it.
Status MakePrivateFolder(const std::string& dir);

// Makes root/name with access for its owner only.
Result<std::string> MakeFolder(const std::string& root, std::string_view name);
// Removes a folder that guests have filled, and everything in it. It takes little stack and few
// descriptors, however deep the folder is. Returns whether the folder is gone.
bool RemoveTree(const std::string& dir);
// Makes the name of a user's folder: it contains no separators, and differs for different users.
std::string FolderName(std::string_view user);

}  // namespace pie::host
