// SnapshotFile: a sequence with its KV, in a file.
//
//   magic, size of the head │ user, model, counts, all rows │ checksum │ page 0,
//   checksum │ page 1, checksum │ …
//
// A file whose rows were computed with adapters has another magic, and in its head the adapters'
// names, digests of their weights, and which rows each of them changed.
//
// Numbers are little-endian. The checksum of each part finds every changed byte, and a file of
// another length is refused. The checksum of a page is verified when the page is read, so opening a
// file costs the same whatever its size.
//
// A SnapshotFile is a mapping of a file. The file may be replaced or removed meanwhile, but never
// changed. One thread reads it at a time, but several may call ReadPage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapping_guard.h"
#include "base/result.h"
#include "kv/rows.h"
#include "kv/stored_kv.h"

namespace pie {

// An adapter that rows of a snapshot were computed with. The file has its name and digest. The
// numbers of versions are an engine's own: in the rows of a file that was opened, the first adapter
// has version 1, the next one 2, until BindAdapters.
struct SnapshotAdapter {
  std::string name;
  std::string digest;  // of its weights
  uint64_t version = 0;
};

// The contents of a snapshot. It loads only where fingerprint, layout and page_bytes match the
// device's.
struct SnapshotInfo {
  std::string user;
  std::string model;  // its name in the engine
  std::string name;
  std::string fingerprint;
  std::string layout;
  uint64_t page_bytes = 0;
  uint32_t page_tokens = 0;
  uint32_t committed_pages = 0;  // the counts of its context
  uint32_t working_pages = 0;
  uint32_t working_tokens = 0;
  int64_t saved_at = 0;  // seconds since 1970
  std::vector<SnapshotAdapter> adapters = {};
};

class SnapshotFile final : public StoredKv {
 public:
  // Maps the file and checks everything but the pages. Errors do not name `path`, because guests
  // see them.
  static Result<std::shared_ptr<SnapshotFile>> Open(const std::string& path);
  ~SnapshotFile() override;
  SnapshotFile(const SnapshotFile&) = delete;
  SnapshotFile& operator=(const SnapshotFile&) = delete;

  const SnapshotInfo& info() const { return info_; }
  uint32_t pages() const { return pages_; }
  uint64_t bytes() const { return map_.size(); }
  RowsView rows() const override { return rows_.view(); }
  Result<std::span<const std::byte>> Page(uint32_t index) const override;
  Status ReadPage(uint32_t index, std::span<std::byte> room) const override;
  Status CheckWhole() const override;
  // Gives the adapters, in the order of info(), the versions that they have in this engine. Call it
  // before other threads see the file.
  void BindAdapters(std::span<const uint64_t> versions);

 private:
  SnapshotFile(int fd, std::span<const std::byte> map) : fd_(fd), map_(map), guard_(map) {}
  Status Parse();
  // Reads the next part of the file into memory at once, not one system page at a time.
  void Populate(size_t end) const;

  const int fd_;
  const std::span<const std::byte> map_;
  MappingGuard guard_;
  SnapshotInfo info_;
  Rows rows_;
  uint32_t pages_ = 0;
  size_t first_page_ = 0;         // offset
  mutable size_t populated_ = 0;  // bytes from the beginning; a mere hint
};

// The head of a snapshot's file, and the length of the whole file.
std::vector<std::byte> SnapshotHead(const SnapshotInfo& info, const RowsView& rows);
uint64_t SnapshotBytes(const SnapshotInfo& info, const RowsView& rows);
// The checksum that follows each page. It may be computed in pieces, so that each piece is read
// while it is in the processor's cache. All pieces but the last have a multiple of kAlign bytes.
class PageChecksum {
 public:
  static constexpr size_t kAlign = 32;
  static constexpr size_t kPieceBytes = size_t{256} << 10;  // that a processor's cache holds
  static_assert(kPieceBytes % kAlign == 0);

  explicit PageChecksum(uint64_t seed);
  void Add(std::span<const std::byte> bytes);
  uint64_t Sum() const;

 private:
  uint64_t a_, b_, c_, d_;
  size_t size_ = 0;
};

// Writes a file beside the one it will replace. The file gets its name when all of it is on the
// disk. So there is always the old file or the new one, whenever the process or the machine stops.
//
// Large files in memory (tmpfs) that are reserved are written through a mapping. Several threads
// then write at a time, while write(2) would let them wait for one another.
class SnapshotWriter {
 public:
  // `folder` exists. The file has a name that no snapshot has, until Commit.
  static Result<SnapshotWriter> Create(const std::string& folder);
  // Removes the file if it has no name yet. Frees the space of the file that it replaced, which may
  // take tenths of a second.
  ~SnapshotWriter();
  SnapshotWriter(SnapshotWriter&& other) noexcept;
  SnapshotWriter& operator=(SnapshotWriter&&) = delete;

  // Announces that several threads will write pages, and the size of the file. To be called before
  // anything is written. Fails if the disk is known to have no room.
  Status Reserve(uint64_t bytes);
  Status Write(std::span<const std::byte> head);
  // Writes a page and its checksum. The head was written before, and all pages have one size.
  // Several threads may write pages at a time.
  Status WritePage(uint32_t index, std::span<const std::byte> page);
  Status Sync();                           // to the disk; slow
  Status Commit(const std::string& name);  // becomes folder/name

  // Removes files that a killed process left behind.
  static void RemoveAbandoned(const std::string& folder);

 private:
  SnapshotWriter(int fd, std::string folder, std::string path)
      : fd_(fd), folder_(std::move(folder)), path_(std::move(path)) {}

  Status WriteAt(uint64_t offset, std::span<const std::byte> bytes);
  // False: the system cannot do that.
  Result<bool> WriteMapped(uint64_t offset, std::span<const std::byte> bytes);

  int fd_;
  std::string folder_;
  std::string path_;          // empty once it has its name
  uint64_t head_bytes_ = 0;   // written by Write
  int replaced_ = -1;         // the file that had the name before
  std::span<std::byte> map_;  // of the whole file; empty: pages are not written through a mapping
  MappingGuard guard_;
};

}  // namespace pie
