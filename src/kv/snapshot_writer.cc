#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/whole_file.h"
#include "kv/snapshot_file.h"

namespace pie {
namespace {

constexpr std::string_view kUnfinished = ".unfinished";
// A younger file may not have been locked yet.
constexpr time_t kAbandonedAfterSeconds = 60;

std::unexpected<Error> WriteFailure() {
  const int error = errno;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    return Fail(Code::kExhausted, "the snapshot could not be saved: the disk is full ({}); {}",
                std::strerror(error), "what was saved before is still there");
  }
  return Fail(Code::kInternal, "the snapshot could not be saved: {}", std::strerror(error));
}

}  // namespace

Result<SnapshotWriter> SnapshotWriter::Create(const std::string& folder) {
  static std::atomic<uint64_t> next = 0;
  const std::string path =
      fmt::format("{}/{}-{}{}", folder, getpid(), next.fetch_add(1), kUnfinished);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return WriteFailure();
  flock(fd, LOCK_EX | LOCK_NB);  // shows other processes that the file is being written
  return SnapshotWriter(fd, folder, path);
}

SnapshotWriter::SnapshotWriter(SnapshotWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      folder_(std::move(other.folder_)),
      path_(std::exchange(other.path_, {})),
      head_bytes_(other.head_bytes_) {}

SnapshotWriter::~SnapshotWriter() {
  if (!path_.empty()) unlink(path_.c_str());
  if (fd_ >= 0) close(fd_);
}

Status SnapshotWriter::WriteAt(uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return WriteFailure();
    offset += static_cast<uint64_t>(written);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Status SnapshotWriter::Write(std::span<const std::byte> head) {
  PIE_RETURN_IF_ERROR(WriteAt(head_bytes_, head));
  head_bytes_ += head.size();
  return {};
}

Status SnapshotWriter::WritePage(uint32_t index, std::span<const std::byte> page) {
  const uint64_t sum = PageChecksum(index, page);
  const uint64_t offset = head_bytes_ + index * (page.size() + sizeof(sum));
  PIE_RETURN_IF_ERROR(WriteAt(offset, page));
  return WriteAt(offset + page.size(), std::as_bytes(std::span(&sum, 1)));
}

Status SnapshotWriter::Sync() {
  if (fsync(fd_) != 0) return WriteFailure();
  return {};
}

Status SnapshotWriter::Commit(const std::string& name) {
  if (rename(path_.c_str(), (folder_ + "/" + name).c_str()) != 0) return WriteFailure();
  path_.clear();
  return SyncFolder(folder_);
}

void SnapshotWriter::RemoveAbandoned(const std::string& folder) {
  DIR* const dir = opendir(folder.c_str());
  if (dir == nullptr) return;
  while (const dirent* entry = readdir(dir)) {
    if (!std::string_view(entry->d_name).ends_with(kUnfinished)) continue;
    const std::string path = folder + "/" + entry->d_name;
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    struct stat stat = {};
    const bool old =
        fstat(fd, &stat) == 0 && stat.st_mtime + kAbandonedAfterSeconds < time(nullptr);
    if (old && flock(fd, LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
    close(fd);
  }
  closedir(dir);
}

}  // namespace pie
