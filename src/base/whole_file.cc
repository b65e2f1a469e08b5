#include "base/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace pie {
namespace {

std::unexpected<Error> SystemFailure(std::string_view doing, std::string_view path) {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  return Fail(full ? Code::kExhausted : Code::kInternal, "cannot {} {}: {}", doing, path,
              std::strerror(error));
}

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

Status WriteWhole(const std::string& path, std::string_view bytes, mode_t mode) {
  static std::atomic<uint64_t> next = 0;
  const std::string aside = fmt::format("{}.{}-{}.new", path, getpid(), next.fetch_add(1));
  const int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return SystemFailure("write", path);
  Status done;
  if (!WriteAll(fd, bytes) || fsync(fd) != 0) done = SystemFailure("write", path);
  if (close(fd) != 0 && done) done = SystemFailure("write", path);
  if (done && rename(aside.c_str(), path.c_str()) != 0) done = SystemFailure("write", path);
  if (!done) {
    unlink(aside.c_str());
    return done;
  }
  const size_t slash = path.rfind('/');
  return SyncFolder(slash == std::string::npos ? "." : path.substr(0, slash + 1));
}

Result<std::string> ReadWhole(const std::string& path, uint64_t most) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) return Fail(Code::kNotFound, "cannot read {}: {}", path, error.message());
  if (size > most) {
    return Fail(Code::kExhausted, "{} has {} bytes; at most {} are allowed", path, size, most);
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return Fail(Code::kNotFound, "cannot open {}", path);
  std::string bytes(size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) {
    return Fail(Code::kInternal, "cannot read {}", path);
  }
  return bytes;
}

Status SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemFailure("open", folder);
  Status done;
  if (fsync(fd) != 0) done = SystemFailure("flush", folder);
  close(fd);
  return done;
}

}  // namespace pie
