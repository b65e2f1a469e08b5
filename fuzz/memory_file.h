// MemoryFile: a file in memory that has a path, for readers that take one.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>

namespace pie::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(const std::string& bytes) : handle_(memfd_create("fuzz", 0)) {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t written = write(handle_, bytes.data() + done, bytes.size() - done);
      if (written <= 0) break;
      done += static_cast<size_t>(written);
    }
  }
  ~MemoryFile() { close(handle_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(handle_); }

 private:
  const int handle_;
};

}  // namespace pie::fuzz
