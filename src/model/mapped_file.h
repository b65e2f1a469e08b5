// MappedFile: a file's bytes in memory, read-only, paged in on first access. Move-only; a move does
// not change the address of the bytes. Opening takes microseconds for any size. If another process
// truncates the file while it is mapped, what is lost reads as zeros, and `lost` says so: replace
// model files, never rewrite them.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

#include "base/mapping_guard.h"
#include "base/result.h"

namespace pie {

class MappedFile {
 public:
  // Fails if the file cannot be read or is not a regular file. An empty file has no bytes.
  static Result<MappedFile> Open(const std::filesystem::path& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), guard_(std::move(other.guard_)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(guard_, other.guard_);
    return *this;
  }

  std::span<const std::byte> bytes() const { return bytes_; }
  // Whether bytes were read that are no longer in the file. Ask after reading.
  bool lost() const { return guard_.lost(); }

  // Tells the system that these bytes are no longer needed, so it may reclaim their memory; a later
  // access reads the file again. Bytes outside this file are ignored.
  void Release(std::span<const std::byte> used) const;

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes), guard_(bytes) {}

  std::span<const std::byte> bytes_;
  MappingGuard guard_;
};

}  // namespace pie
