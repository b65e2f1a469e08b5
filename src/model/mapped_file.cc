#include "model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace pie {
namespace {

struct Descriptor {
  int fd;
  explicit Descriptor(int opened) : fd(opened) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd >= 0) close(fd);
  }
};

std::unexpected<Error> SystemError(const std::filesystem::path& path, const char* what, int error) {
  return Fail(error == ENOENT ? Code::kNotFound : Code::kInvalid, "{}: cannot be {}: {}",
              path.string(), what, std::generic_category().message(error));
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  // Without O_NONBLOCK, open would wait for a writer if the path is a pipe.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return SystemError(path, "opened", errno);
  struct stat status = {};
  if (fstat(file.fd, &status) != 0) return SystemError(path, "examined", errno);
  if (!S_ISREG(status.st_mode))
    return Fail(Code::kInvalid, "{}: this is not a regular file", path.string());
  const auto size = static_cast<size_t>(status.st_size);
  if (size == 0) return MappedFile();
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (address == MAP_FAILED) return SystemError(path, "mapped into memory", errno);
  return MappedFile({static_cast<const std::byte*>(address), size});
}

void MappedFile::Release(std::span<const std::byte> used) const {
  if (used.empty() || used.data() < bytes_.data() ||
      used.data() + used.size() > bytes_.data() + bytes_.size()) {
    return;
  }
  // Releases the page in which the bytes begin, because bytes are released in ascending order and
  // those before are no longer needed either, but not the page in which they end.
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(used.data()) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(used.data() + used.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  guard_ = {};
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace pie
