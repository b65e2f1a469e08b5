// FolderWatch: the quotas of folders for what is no write, whose bytes the bridge counts
// (bridge/src/wasm/quota.rs): names and folders without end. They are counted a few times a second,
// and a process that has made too many is stopped with an error that says so. Any thread; one
// thread of its own.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"

namespace pie::host {

class Process;

class FolderWatch {
 public:
  FolderWatch();
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // Until the process is gone. `name` is what the guest calls the folder.
  void Watch(const std::shared_ptr<Process>& process, std::string dir, std::string name,
             size_t max_bytes);

 private:
  struct Watched {
    std::weak_ptr<Process> process;
    std::string dir, name;
    size_t max_bytes;
  };
  void Run();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched> watched_;
  bool stop_ = false;
  std::thread thread_;
};

// Folders within folders that a guest may make.
inline constexpr size_t kMostFolders = 64;

struct FolderSize {
  size_t bytes = 0;    // on the disk
  size_t entries = 0;  // counted up to `max_entries` + 1
  size_t depth = 1;    // counted up to kMostFolders + 1
};
FolderSize MeasureFolder(const std::string& dir, size_t max_entries);

// Makes a folder that only this user of the machine may write to. Fails if it is there already and
// somebody else may.
Status MakePrivateFolder(const std::string& dir);

// Makes root/name, for its owner alone.
Result<std::string> MakeFolder(const std::string& root, std::string_view name);
// A user's name as that of a folder: no way up, no way aside, and no two alike.
std::string FolderName(std::string_view user);

}  // namespace pie::host
