#include "host/scratch_root.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "host/folder_watch.h"

namespace pie::host {

namespace fs = std::filesystem;

namespace {

constexpr int kOpenFolder = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Removes the folders that no engine has locked.
void RemoveAbandoned(const std::string& root) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
    const int fd = open(entry.path().c_str(), kOpenFolder);
    if (fd < 0) continue;
    const bool abandoned = flock(fd, LOCK_EX | LOCK_NB) == 0;
    close(fd);
    if (abandoned) RemoveTree(entry.path().string());
  }
}

}  // namespace

Result<std::unique_ptr<ScratchRoot>> ScratchRoot::Make(const std::string& root,
                                                       const std::string& engine) {
  PIE_RETURN_IF_ERROR(MakePrivateFolder(root));
  // Hold the lock of the root, so that no other engine removes the folder before it is locked.
  const int whole = open(root.c_str(), kOpenFolder);
  if (whole < 0 || flock(whole, LOCK_EX) != 0) {
    const int why = errno;
    if (whole >= 0) close(whole);
    return Fail(Code::kInternal, "cannot lock the folder {}: {}", root, std::strerror(why));
  }
  RemoveAbandoned(root);
  auto dir = MakeFolder(root, engine);
  const int lock = dir ? open(dir->c_str(), kOpenFolder) : -1;
  const bool locked = lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0;
  const int why = errno;
  close(whole);
  if (!dir) return std::unexpected(dir.error());
  if (!locked) {
    if (lock >= 0) close(lock);
    return Fail(Code::kInternal, "cannot lock the folder {}: {}", *dir, std::strerror(why));
  }
  return std::unique_ptr<ScratchRoot>(new ScratchRoot(*std::move(dir), lock));
}

ScratchRoot::~ScratchRoot() {
  RemoveTree(dir_);
  close(lock_);
}

}  // namespace pie::host
