// SnapshotFile: a sequence with its KV, in a file.
//
//   magic, size of what follows │ who, which model, how long, all rows │ checksum │ page 0,
//   checksum │ page 1, checksum │ …
//
// Numbers are little-endian. Every byte counts: one that differs is found by the checksum of its
// part, and a file that is longer or shorter is none. The checksum of a page is made when the page
// is read, so that opening a file costs the same whatever its size.
//
// A SnapshotFile is a mapping of a file; that file may be replaced or removed meanwhile, never
// changed. Reading is for one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kv/rows.h"
#include "kv/stored_kv.h"

namespace pie {

// What a snapshot is of. The three in the middle bind it to a device.
struct SnapshotInfo {
  std::string user;
  std::string model;  // its name in the engine
  std::string name;
  std::string fingerprint;
  std::string layout;
  uint64_t page_bytes = 0;
  uint32_t page_tokens = 0;
  uint32_t committed_pages = 0;  // how its context counted
  uint32_t working_pages = 0;
  uint32_t working_tokens = 0;
  int64_t saved_at = 0;  // seconds since 1970
};

class SnapshotFile final : public StoredKv {
 public:
  // Maps it and checks all but the pages. `path` is only for the operator: errors do not name it.
  static Result<std::shared_ptr<SnapshotFile>> Open(const std::string& path);
  ~SnapshotFile() override;
  SnapshotFile(const SnapshotFile&) = delete;
  SnapshotFile& operator=(const SnapshotFile&) = delete;

  const SnapshotInfo& info() const { return info_; }
  uint32_t pages() const { return pages_; }
  uint64_t bytes() const { return map_.size(); }
  RowsView rows() const override { return rows_.view(); }
  Result<std::span<const std::byte>> Page(uint32_t index) const override;

 private:
  SnapshotFile(int fd, std::span<const std::byte> map) : fd_(fd), map_(map) {}
  Status Parse();
  // Maps what comes next in one go, not page by page of the system.
  void Populate(size_t end) const;

  const int fd_;
  const std::span<const std::byte> map_;
  SnapshotInfo info_;
  Rows rows_;
  uint32_t pages_ = 0;
  size_t first_page_ = 0;         // offset
  mutable size_t populated_ = 0;  // bytes from the beginning; a mere hint
};

// What the file of such a snapshot begins with, and how long it will be.
std::vector<std::byte> SnapshotHead(const SnapshotInfo& info, const RowsView& rows);
uint64_t SnapshotBytes(const SnapshotInfo& info, const RowsView& rows);
// What follows each page.
uint64_t PageChecksum(uint32_t index, std::span<const std::byte> page);

// Writes a file beside the one it will replace. A name appears when all of it is on the disk, and
// not before: whenever the process or the machine stops, there is the old file or the new one.
class SnapshotWriter {
 public:
  // `folder` exists. The file has a name that no snapshot has, until Commit.
  static Result<SnapshotWriter> Create(const std::string& folder);
  ~SnapshotWriter();
  SnapshotWriter(SnapshotWriter&& other) noexcept;
  SnapshotWriter& operator=(SnapshotWriter&&) = delete;

  Status Write(std::span<const std::byte> bytes);
  Status WritePage(uint32_t index, std::span<const std::byte> page);
  Status Sync();                           // to the disk; slow
  Status Commit(const std::string& name);  // becomes folder/name

  // Files that a process left behind when it was killed.
  static void RemoveAbandoned(const std::string& folder);

 private:
  SnapshotWriter(int fd, std::string folder, std::string path)
      : fd_(fd), folder_(std::move(folder)), path_(std::move(path)) {}

  int fd_;
  std::string folder_;
  std::string path_;  // empty once it has its name
};

}  // namespace pie
