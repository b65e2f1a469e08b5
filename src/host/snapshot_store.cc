#include "host/snapshot_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/whole_file.h"
#include "host/hash.h"

namespace pie::host {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kExtension = ".snapshot";
constexpr size_t kNameDigits = 40;
constexpr size_t kMaxNameBytes = 256;

// A lock that is held while the files of a user's folder are counted and renamed.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder)
      : fd_(open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) {
    while (fd_ >= 0 && flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FolderLock() {
    if (fd_ >= 0) close(fd_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  const int fd_;
};

std::vector<fs::path> FilesOf(const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    if (each->path().extension() == kExtension) files.push_back(each->path());
  }
  return files;
}

std::vector<fs::path> FoldersOf(const std::string& root) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator each(root, error), end; !error && each != end;
       each.increment(error)) {
    std::error_code ignored;
    if (each->is_directory(ignored)) folders.push_back(each->path());
  }
  return folders;
}

SnapshotStore::Entry Describe(const fs::path& path) {
  SnapshotStore::Entry entry{.path = path};
  const auto file = SnapshotFile::Open(path);
  if (!file) {
    entry.problem = file.error().text;
    return entry;
  }
  entry.info = (*file)->info();
  entry.tokens = (*file)->rows().size();
  entry.bytes = (*file)->bytes();
  return entry;
}

}  // namespace

Status CheckSnapshotName(std::string_view name) {
  if (name.empty()) return Fail(Code::kInvalid, "a snapshot needs a name");
  if (name.size() > kMaxNameBytes) {
    return Fail(Code::kInvalid, "a snapshot's name has at most {} bytes, this one has {}",
                kMaxNameBytes, name.size());
  }
  return {};
}

std::unexpected<Error> NoSnapshot(std::string_view name) {
  return Fail(Code::kNotFound, "no snapshot is named '{}'", name);
}

std::string SnapshotStore::FolderOf(std::string_view user) const {
  return root_ + "/" + Blake3Hex(user).substr(0, kNameDigits);
}

std::string SnapshotStore::FileOf(const Key& key) {
  const std::string whole = std::string(key.model) + '\0' + std::string(key.name);
  return Blake3Hex(whole).substr(0, kNameDigits) + std::string(kExtension);
}

Result<std::shared_ptr<SnapshotFile>> SnapshotStore::Open(const Key& key) const {
  auto file = SnapshotFile::Open(FolderOf(key.user) + "/" + FileOf(key));
  if (!file && file.error().code == Code::kNotFound) return NoSnapshot(key.name);
  if (!file) return Fail(file.error().code, "snapshot '{}': {}", key.name, file.error().text);
  const SnapshotInfo& info = (*file)->info();
  if (info.user != key.user || info.model != key.model || info.name != key.name) {
    return Fail(Code::kInvalid,
                "snapshot '{}': the file in its place belongs to another user, model or name; use "
                "`pie snapshot import` to import a file",
                key.name);
  }
  return file;
}

Result<std::shared_ptr<SnapshotFile>> SnapshotStore::Take(const Key& key) const {
  const FolderLock lock(FolderOf(key.user));
  auto file = PIE_TRY(Open(key));
  std::error_code error;
  if (!fs::remove(FolderOf(key.user) + "/" + FileOf(key), error)) return NoSnapshot(key.name);
  PIE_RETURN_IF_ERROR(SyncFolder(FolderOf(key.user)));
  return file;
}

Status SnapshotStore::Delete(const Key& key) const {
  const FolderLock lock(FolderOf(key.user));
  std::error_code error;
  if (fs::remove(FolderOf(key.user) + "/" + FileOf(key), error)) {
    return SyncFolder(FolderOf(key.user));
  }
  if (!error) return NoSnapshot(key.name);
  return Fail(Code::kInternal, "snapshot '{}' cannot be deleted: {}", key.name, error.message());
}

// The snapshot that will be replaced does not count.
Status SnapshotStore::CheckQuota(const Key& key, uint64_t bytes) const {
  size_t count = 1;
  uint64_t total = bytes;
  const std::string own = FileOf(key);
  for (const fs::path& file : FilesOf(FolderOf(key.user))) {
    if (file.filename() == own) continue;
    std::error_code error;
    const auto size = fs::file_size(file, error);
    if (error) continue;
    ++count;
    total += size;
  }
  if (count > limits_.max_snapshots) {
    return Fail(Code::kExhausted, "user {} has {} snapshots already; delete some", key.user,
                count - 1);
  }
  if (total > limits_.max_snapshot_bytes) {
    return Fail(Code::kExhausted,
                "user {}'s snapshots would take {} MiB; at most {} MiB are allowed: delete some",
                key.user, (total >> 20) + 1, limits_.max_snapshot_bytes >> 20);
  }
  return {};
}

Result<SnapshotWriter> SnapshotStore::Begin(const Key& key, uint64_t bytes) const {
  std::error_code error;
  const std::string folder = FolderOf(key.user);
  const bool made = fs::create_directories(folder, error);
  if (error) {
    return Fail(Code::kInternal, "cannot make the folder of snapshots: {}", error.message());
  }
  if (made) {  // the new folder must be on the disk before a snapshot in it
    PIE_RETURN_IF_ERROR(SyncFolder(root_));
    PIE_RETURN_IF_ERROR(SyncFolder(fs::path(root_).parent_path()));
  }
  fs::permissions(root_, fs::perms::owner_all,
                  error);  // other users of the machine may not read snapshots
  PIE_RETURN_IF_ERROR(CheckQuota(key, bytes));
  return SnapshotWriter::Create(folder);
}

Status SnapshotStore::Commit(const Key& key, SnapshotWriter& writer, uint64_t bytes) const {
  PIE_RETURN_IF_ERROR(writer.Sync());
  {
    const FolderLock lock(FolderOf(key.user));
    PIE_RETURN_IF_ERROR(CheckQuota(key, bytes));  // check again: others may have written meanwhile
    PIE_RETURN_IF_ERROR(writer.Commit(FileOf(key)));
  }
  return {};
}

std::vector<SnapshotStore::Entry> SnapshotStore::List() const {
  std::vector<Entry> entries;
  for (const fs::path& folder : FoldersOf(root_)) {
    for (const fs::path& path : FilesOf(folder)) entries.push_back(Describe(path));
  }
  return entries;
}

std::vector<SnapshotStore::Entry> SnapshotStore::ListOf(std::string_view user, size_t most) const {
  std::vector<Entry> entries;
  for (const fs::path& path : FilesOf(FolderOf(user))) {
    if (entries.size() == most) break;
    entries.push_back(Describe(path));
  }
  return entries;
}

void SnapshotStore::RemoveAbandoned() const {
  for (const fs::path& folder : FoldersOf(root_)) SnapshotWriter::RemoveAbandoned(folder);
}

}  // namespace pie::host
