#include "host/guest_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "host/folder_watch.h"

namespace pie::host {
namespace {

constexpr size_t kMaxSteps = 32;
constexpr int kFolderFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// An open file or folder.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }

 private:
  int fd_;
};

std::unexpected<Error> Failed(std::string_view path, std::string_view what) {
  const int error = errno;
  const Code code = error == ENOENT                      ? Code::kNotFound
                    : error == ENOSPC || error == EDQUOT ? Code::kExhausted
                                                         : Code::kInvalid;
  return Fail(code, "{} cannot be {}: {}", path, what, std::strerror(error));
}

// Opens a folder step by step, so that no step is a link. With `make`, creates the last folder of
// the path if it does not exist.
Result<Descriptor> OpenFolder(const std::string& root, const std::vector<std::string>& steps,
                              std::string_view shown, bool make) {
  Descriptor folder(open(root.c_str(), kFolderFlags));
  for (size_t i = 0; i < steps.size() && folder.ok(); ++i) {
    if (make && i + 1 == steps.size()) mkdirat(folder.get(), steps[i].c_str(), 0700);
    folder = Descriptor(openat(folder.get(), steps[i].c_str(), kFolderFlags));
  }
  if (!folder.ok()) return Failed(shown, "opened as a folder");
  return folder;
}

Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return Failed("the file", "written");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

}  // namespace

Result<GuestFiles::Place> GuestFiles::Resolve(std::string_view path) const {
  Place place{};
  std::string_view rest = path;
  for (const auto& [prefix, folder] :
       {std::pair<std::string_view, const Folder*>{"/scratch", &scratch_}, {"/data", &data_}}) {
    if (!path.starts_with(prefix)) continue;
    rest = path.substr(prefix.size());
    if (rest.empty() || rest[0] == '/') place.root = folder;
  }
  if (place.root == nullptr) {
    return Fail(Code::kInvalid, "the path '{}' must begin with /scratch/ or /data/", path);
  }
  if (place.root->path.empty()) {
    return Fail(Code::kUnavailable,
                "the path '{}': this inferlet has no such folder (see allow_fs and fs_data_dir in "
                "the configuration)",
                path);
  }
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('/'), rest.size());
    const std::string step(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (step.empty() || step == ".") continue;
    if (step == ".." || step.find('\0') != step.npos) {
      return Fail(Code::kInvalid, "the path '{}' must not contain '..'", path);
    }
    place.steps.push_back(step);
  }
  if (place.steps.size() > kMaxSteps) {
    return Fail(Code::kInvalid, "the path '{}' has more than {} steps", path, kMaxSteps);
  }
  return place;
}

Result<std::string> GuestFiles::Read(std::string_view folder, std::string_view name,
                                     uint64_t max_bytes, Charge& charge) const {
  const Place place = PIE_TRY(Resolve(folder));
  const Descriptor parent = PIE_TRY(OpenFolder(place.root->path, place.steps, folder, false));
  const std::string shown = fmt::format("{}/{}", folder, name);
  // Without O_NONBLOCK, opening a pipe would wait for a writer.
  const Descriptor file(openat(parent.get(), std::string(name).c_str(),
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status = {};
  if (!file.ok() || fstat(file.get(), &status) != 0) return Failed(shown, "opened");
  if (!S_ISREG(status.st_mode)) return Fail(Code::kInvalid, "{} is not a file", shown);
  if (static_cast<uint64_t>(status.st_size) > max_bytes) {
    return Fail(Code::kExhausted, "{} has {} bytes; at most {} are allowed", shown, status.st_size,
                max_bytes);
  }
  if (!charge.Grow(static_cast<size_t>(status.st_size))) {
    return Fail(Code::kExhausted,
                "{} has {} bytes; the inferlets of this user do not have that much memory left",
                shown, status.st_size);
  }
  std::string bytes(static_cast<size_t>(status.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = read(file.get(), &bytes[done], bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failed(shown, "read");
    if (count == 0) break;  // it became shorter meanwhile
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

Status GuestFiles::Write(std::string_view folder, const std::vector<File>& files) const {
  const Place place = PIE_TRY(Resolve(folder));
  uint64_t bytes = 0;
  for (const File& file : files) bytes += file.bytes.size();
  constexpr size_t kEntries = 100'000;
  const uint64_t used = MeasureFolder(place.root->path, kEntries).bytes;
  if (used + bytes > place.root->max_bytes) {
    return Fail(Code::kExhausted, "{} needs {} bytes, but its folder has room for {}", folder,
                bytes, place.root->max_bytes - std::min(used, place.root->max_bytes));
  }
  const Descriptor parent = PIE_TRY(OpenFolder(place.root->path, place.steps, folder, true));
  for (const File& file : files) {
    const std::string shown = fmt::format("{}/{}", folder, file.name);
    const std::string partial = fmt::format(".{}.partial", file.name);
    unlinkat(parent.get(), partial.c_str(), 0);
    const Descriptor written(openat(parent.get(), partial.c_str(),
                                    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!written.ok()) return Failed(shown, "written");
    const Status status = WriteAll(written.get(), file.bytes);
    const std::string name(file.name);
    if (!status || renameat(parent.get(), partial.c_str(), parent.get(), name.c_str()) != 0) {
      const auto failure = Failed(shown, "written");
      unlinkat(parent.get(), partial.c_str(), 0);
      return failure;
    }
  }
  return {};
}

}  // namespace pie::host
