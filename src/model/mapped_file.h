// MappedFile: a file's bytes in memory, read-only, paged in as they are touched. Move-only; the
// bytes keep their address when it moves. Opening costs microseconds whatever the size.
// Another process that shortens the file while it is mapped takes this one down (SIGBUS): model
// files are replaced, never rewritten.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "base/result.h"

namespace pie {

class MappedFile {
 public:
  // Fails when the file cannot be read or is no regular file. An empty file has no bytes.
  static Result<MappedFile> Open(const std::filesystem::path& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  std::span<const std::byte> bytes() const { return bytes_; }

  // Says that these bytes have been used: the system may take their memory back, and reads the file
  // again if somebody does look. Bytes that are not of this file are left alone.
  void Release(std::span<const std::byte> used) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace pie
