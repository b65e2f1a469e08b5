#include "host/folder_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>

#include "abi/text.h"
#include "host/hash.h"
#include "host/limits.h"
#include "host/process.h"

namespace pie::host {
namespace {

namespace fs = std::filesystem;

constexpr auto kEvery = std::chrono::milliseconds(200);
constexpr size_t kBlockBytes = 512;     // the unit of st_blocks
constexpr size_t kMostNameBytes = 128;  // a longer name becomes a hash
constexpr std::string_view kScratch = "/scratch";

constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Adds the sizes of everything in a folder, and closes `fd`. It opens each folder relative to its
// parent's descriptor, because a guest can make paths that are too long for the system. It follows
// no links.
void Measure(int fd, size_t depth, size_t max_entries, FolderSize& size) {
  DIR* const dir = fdopendir(fd);
  if (dir == nullptr) {
    close(fd);
    return;
  }
  while (size.entries <= max_entries && size.depth <= kMostFolders) {
    const dirent* const entry = readdir(dir);
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat status{};
    if (fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    size.bytes += static_cast<size_t>(status.st_blocks) * kBlockBytes;
    ++size.entries;
    if (!S_ISDIR(status.st_mode)) continue;
    size.depth = std::max(size.depth, depth + 1);
    const int below = depth < kMostFolders ? openat(fd, entry->d_name, kOpenFolder) : -1;
    if (below >= 0) Measure(below, depth + 1, max_entries, size);
  }
  closedir(dir);
}

}  // namespace

FolderWatch::FolderWatch(size_t max_scratch_entries, uint32_t user_share_percent)
    : max_scratch_entries_(max_scratch_entries),
      user_share_percent_(user_share_percent),
      thread_([this] { Run(); }) {}

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
    std::vector<std::pair<std::shared_ptr<Process>, size_t>> scratch;  // how many entries each has
    for (const Watched& one : all) {
      auto [size, unknown] = sizes.try_emplace(one.dir);
      if (unknown) size->second = MeasureFolder(one.dir, limits.max_folder_entries);
      const FolderSize& now = size->second;
      const bool too_deep = now.depth > kMostFolders;
      if (one.name == kScratch) {
        if (auto process = one.process.lock())
          scratch.emplace_back(std::move(process), now.entries);
      }
      if (now.bytes <= one.max_bytes && now.entries <= limits.max_folder_entries && !too_deep) {
        continue;
      }
      auto process = one.process.lock();
      if (process && too_deep) {
        process->Stop(fmt::format("disk quota: {} has folders {} deep; {} is the limit", one.name,
                                  now.depth, kMostFolders));
      } else if (process) {
        process->Stop(fmt::format(
            "disk quota: {} holds {} MiB in {} files; {} MiB and {} are allowed", one.name,
            now.bytes >> 20, now.entries, one.max_bytes >> 20, limits.max_folder_entries));
      }
    }
    StopWhoHasMost(scratch);
    scratch.clear();
    lock.lock();
  }
}

// Files without content take no space of a quota, but a disk can hold only a limited number of
// files. When there are too many, stops the process with the most files of the user with the most
// files.
void FolderWatch::StopWhoHasMost(
    const std::vector<std::pair<std::shared_ptr<Process>, size_t>>& entries) const {
  struct Own {
    size_t entries = 0, most = 0;
    Process* process = nullptr;  // the one with the most
  };
  std::map<std::string_view, Own> users;
  size_t total = 0;
  for (const auto& [process, count] : entries) {
    Own& own = users[process->options().username];
    total += count;
    own.entries += count;
    if (own.process == nullptr || count > own.most) {
      own.most = count;
      own.process = process.get();
    }
  }
  const size_t share = max_scratch_entries_ / 100 * (users.size() > 1 ? user_share_percent_ : 100);
  for (const auto& [user, own] : users) {
    const bool has_most = std::ranges::none_of(
        users, [&](const auto& other) { return other.second.entries > own.entries; });
    if (!has_most || (own.entries <= share && total <= max_scratch_entries_)) continue;
    own.process->Stop(fmt::format(
        "disk quota: the /scratch folders of this user's inferlets hold {} files; all users "
        "together may have {}",
        own.entries, max_scratch_entries_));
  }
}

FolderSize MeasureFolder(const std::string& dir, size_t max_entries) {
  FolderSize size;
  const int fd = open(dir.c_str(), kOpenFolder);
  if (fd >= 0) Measure(fd, 1, max_entries, size);
  return size;
}

Status MakePrivateFolder(const std::string& dir) {
  std::error_code error;
  fs::create_directories(fs::path(dir).parent_path(), error);
  struct stat status{};
  if ((mkdir(dir.c_str(), S_IRWXU) != 0 && errno != EEXIST) || lstat(dir.c_str(), &status) != 0) {
    return Fail(Code::kInternal, "cannot make the folder {}: {}", dir, std::strerror(errno));
  }
  if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() ||
      (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Fail(
        Code::kInvalid,
        "the folder {} is not yours alone: it is a link, belongs to another user, or others "
        "may write to it; remove it, or set another folder",
        dir);
  }
  return {};
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

bool RemoveTree(const std::string& dir) {
  return pie_bridge::pie_remove_tree(abi::ToStr(dir));
}

std::string FolderName(std::string_view user) {
  std::string name;
  for (const char c : user) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    if (plain) {
      name += c;
    } else {  // capitals are replaced too, because some file systems ignore case
      name += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    }
  }
  return name.size() <= kMostNameBytes && !name.empty() ? name : "=" + Blake3Hex(user);
}

}  // namespace pie::host
