// StoredKv: the KV of a sequence outside of the device, in a file or in host memory. A sequence can
// continue from it without computing anything again.
//
// The step thread reads it. It is immutable, so that forks share one.
#pragma once

#include <cstddef>
#include <cstdint>
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
  // Fails if a page changed while it was read. Ask after reading.
  virtual Status CheckWhole() const { return {}; }
};

// The part of a sequence that a device holds.
struct KvContent {
  Rows rows;                     // of the whole sequence; only with its first page
  std::vector<std::byte> bytes;  // of the pages asked for, one after another
};

}  // namespace pie
