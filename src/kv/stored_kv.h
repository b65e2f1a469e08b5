// StoredKv: the KV of a sequence outside of the device, in a file or in host memory. A sequence can
// continue from it without computing anything again.
//
// The step thread and the device read it. It is immutable, so that forks share one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "kv/rows.h"

namespace pie {

class StoredKv {
 public:
  virtual ~StoredKv() = default;
  virtual RowsView rows() const = 0;  // of the whole sequence
  // The content of its index-th page. Valid until the next call. May read a disk.
  virtual Result<std::span<const std::byte>> Page(uint32_t index) const = 0;
  // Copies the content of a page, and checks it. Several threads may call it at a time, but not
  // while another one calls Page. The default is for stores whose Page may be called like that.
  virtual Status ReadPage(uint32_t index, std::span<std::byte> room) const;
  // Fails if a page changed while it was read. Ask after reading.
  virtual Status CheckWhole() const { return {}; }
};

// The contents of some pages, which may still be on their way from a device. Any thread may use it.
class PageContents {
 public:
  virtual ~PageContents() = default;
  virtual uint32_t pages() const = 0;
  // The content of the index-th page. Waits until it has come. Valid while this object lives.
  virtual Result<std::span<const std::byte>> Page(uint32_t index) const = 0;
};
using PageContentsPtr = std::shared_ptr<const PageContents>;

// Contents that are here: pages of page_bytes, one after another.
PageContentsPtr MakePageContents(std::vector<std::byte> bytes, size_t page_bytes);

// The part of a sequence that a device holds.
struct KvContent {
  Rows rows;              // of the whole sequence; only with its first page
  PageContentsPtr pages;  // those asked for, in order
};

}  // namespace pie
