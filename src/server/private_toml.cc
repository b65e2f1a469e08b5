#include "server/private_toml.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace pie::server {

Result<toml::table> ReadPrivateToml(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return toml::table();
    return Fail(Code::kInternal, "cannot read {}: {}", path, std::strerror(errno));
  }
  if ((status.st_mode & 077) != 0) {
    return Fail(Code::kInvalid, "{} can be read or written by others: run chmod 600 {}", path,
                path);
  }
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalid, "{}:{}: {}", path, error.source().begin.line, error.description());
  }
}

Result<PrivateTomlLock> PrivateTomlLock::Take(const std::string& path) {
  const std::string file = path + ".lock";
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  PrivateTomlLock lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.fd_ < 0) return Fail(Code::kInternal, "cannot open {}: {}", file, std::strerror(errno));
  while (flock(lock.fd_, LOCK_EX) != 0) {
    if (errno != EINTR) {
      return Fail(Code::kInternal, "cannot lock {}: {}", file, std::strerror(errno));
    }
  }
  return lock;
}

PrivateTomlLock::~PrivateTomlLock() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace pie::server
