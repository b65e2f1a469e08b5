#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "base/mapping_guard.h"
#include "base/whole_file.h"
#include "kv/snapshot_file.h"

namespace pie {
namespace {

constexpr std::string_view kUnfinished = ".unfinished";
// A younger file may not have been locked yet.
constexpr time_t kAbandonedAfterSeconds = 60;
// Smaller files are not worth the effort.
constexpr uint64_t kMappedFrom = uint64_t{64} << 20;

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
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return WriteFailure();
  flock(fd, LOCK_EX | LOCK_NB);  // shows other processes that the file is being written
  return SnapshotWriter(fd, folder, path);
}

SnapshotWriter::SnapshotWriter(SnapshotWriter&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      folder_(std::move(other.folder_)),
      path_(std::exchange(other.path_, {})),
      head_bytes_(other.head_bytes_),
      replaced_(std::exchange(other.replaced_, -1)),
      map_(std::exchange(other.map_, {})),
      guard_(std::move(other.guard_)) {}

SnapshotWriter::~SnapshotWriter() {
  if (!path_.empty()) unlink(path_.c_str());
  guard_ = {};
  if (!map_.empty()) munmap(map_.data(), map_.size());
  if (fd_ >= 0) close(fd_);
  if (replaced_ >= 0) close(replaced_);
}

Status SnapshotWriter::Reserve(uint64_t bytes) {
  struct statfs system = {};
  if (bytes < kMappedFrom || fstatfs(fd_, &system) != 0 || system.f_type != TMPFS_MAGIC) return {};
  PIE_CHECK(map_.empty() && head_bytes_ == 0);
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return WriteFailure();
#ifdef MADV_POPULATE_WRITE
  void* const map = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (map == MAP_FAILED) return {};
  map_ = {static_cast<std::byte*>(map), bytes};
  guard_ = MappingGuard(map_);
  struct stat stat = {};
  constexpr blksize_t kHugePage = 2 << 20;
  if (fstat(fd_, &stat) != 0 || stat.st_blksize < kHugePage) return {};
  // Huge pages are taken at once: a gigabyte takes milliseconds. In small pages it would take
  // tenths of a second here, and the threads that write take them instead.
  int failed = 0;
  do {
    failed = fallocate(fd_, 0, 0, static_cast<off_t>(bytes));
  } while (failed != 0 && errno == EINTR);
  if (failed != 0 && errno != EOPNOTSUPP) return WriteFailure();
#endif
  return {};
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

// The system gives the memory before it is written. So a disk without room is an error here, and
// not a signal.
Result<bool> SnapshotWriter::WriteMapped(uint64_t offset, std::span<const std::byte> bytes) {
#ifdef MADV_POPULATE_WRITE
  const auto unit = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t behind = offset % unit;
  PIE_CHECK(offset + bytes.size() <= map_.size());
  std::byte* const to = &map_[offset];
  if (madvise(to - behind, behind + bytes.size(), MADV_POPULATE_WRITE) != 0) {
    if (errno == EINVAL) return false;
    if (errno == EFAULT) errno = ENOSPC;
    return WriteFailure();
  }
  std::ranges::copy(bytes, to);
  return true;
#else
  return false;
#endif
}

Status SnapshotWriter::WritePage(uint32_t index, std::span<const std::byte> page) {
  const uint64_t offset = head_bytes_ + index * (page.size() + sizeof(uint64_t));
  constexpr size_t kPieceBytes = PageChecksum::kPieceBytes;
  PageChecksum checksum(index);
  size_t done = 0;
  while (!map_.empty() && done < page.size()) {
    const auto piece = page.subspan(done, std::min(kPieceBytes, page.size() - done));
    if (!PIE_TRY(WriteMapped(offset + done, piece))) break;
    checksum.Add(piece);
    done += piece.size();
  }
  if (done < page.size()) checksum.Add(page.subspan(done));
  const uint64_t sum = checksum.Sum();
  PIE_RETURN_IF_ERROR(WriteAt(offset + done, page.subspan(done)));
  return WriteAt(offset + page.size(), std::as_bytes(std::span(&sum, 1)));
}

Status SnapshotWriter::Sync() {
  if (guard_.lost()) {
    return Fail(Code::kInternal,
                "the snapshot could not be saved: its file was shortened meanwhile");
  }
  if (fsync(fd_) != 0) return WriteFailure();
  return {};
}

Status SnapshotWriter::Commit(const std::string& name) {
  const std::string path = folder_ + "/" + name;
  // The last one that has the old file open frees its space.
  replaced_ = open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (rename(path_.c_str(), path.c_str()) != 0) return WriteFailure();
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
