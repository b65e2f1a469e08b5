#include "host/folder_watch.h"

#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <map>

#include "host/hash.h"
#include "host/limits.h"
#include "host/process.h"

namespace pie::host {
namespace {

namespace fs = std::filesystem;

constexpr auto kEvery = std::chrono::milliseconds(200);
constexpr size_t kBlockBytes = 512;     // what st_blocks counts
constexpr size_t kMostNameBytes = 128;  // a longer name becomes a hash

}  // namespace

FolderWatch::FolderWatch() : thread_([this] { Run(); }) {}

FolderWatch::~FolderWatch() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FolderWatch::Watch(const std::shared_ptr<Process>& process, std::string dir, std::string name,
                        size_t max_bytes) {
  std::lock_guard lock(mutex_);
  watched_.push_back({process, std::move(dir), std::move(name), max_bytes});
  changed_.notify_all();
}

void FolderWatch::Run() {
  const Limits limits;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !watched_.empty(); });
    if (changed_.wait_for(lock, kEvery, [this] { return stop_; })) return;
    std::erase_if(watched_, [](const Watched& w) { return w.process.expired(); });
    const std::vector<Watched> all = watched_;
    lock.unlock();
    std::map<std::string, FolderSize> sizes;  // processes of a user share a folder
    for (const Watched& one : all) {
      auto [size, unknown] = sizes.try_emplace(one.dir);
      if (unknown) size->second = MeasureFolder(one.dir, limits.max_folder_entries);
      const FolderSize& now = size->second;
      if (now.bytes <= one.max_bytes && now.entries <= limits.max_folder_entries) continue;
      if (auto process = one.process.lock()) {
        process->Stop(fmt::format(
            "disk quota: {} holds {} MiB in {} files; {} MiB and {} are allowed", one.name,
            now.bytes >> 20, now.entries, one.max_bytes >> 20, limits.max_folder_entries));
      }
    }
    lock.lock();
  }
}

FolderSize MeasureFolder(const std::string& dir, size_t max_entries) {
  FolderSize size;
  std::error_code error;
  // Links are not followed, neither by the iterator nor by lstat.
  for (auto it = fs::recursive_directory_iterator(dir, error);
       !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    struct stat status{};
    if (lstat(it->path().c_str(), &status) != 0) continue;
    size.bytes += static_cast<size_t>(status.st_blocks) * kBlockBytes;
    if (++size.entries > max_entries) break;
  }
  return size;
}

Result<std::string> MakeFolder(const std::string& root, std::string_view name) {
  const fs::path dir = fs::path(root) / name;
  std::error_code error;
  fs::create_directories(dir, error);
  if (!error) fs::permissions(dir, fs::perms::owner_all, error);
  if (error) {
    return Fail(Code::kInternal, "cannot make the folder {}: {}", dir.string(), error.message());
  }
  return dir.string();
}

std::string FolderName(std::string_view user) {
  std::string name;
  for (const char c : user) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (plain) {
      name += c;
    } else {  // capitals too: some filesystems do not tell them apart
      name += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    }
  }
  return name.size() <= kMostNameBytes && !name.empty() ? name : "=" + Blake3Hex(user);
}

}  // namespace pie::host
