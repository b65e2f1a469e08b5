// PagePool: which pages of a device's KV memory are in use, and by how many. Pages are numbers
// here; their contents live in the backend.
//
// Owner: the step thread. Every call is O(1) but CheckIntegrity. A full pool is an ordinary answer
// (nullopt); giving back what was not taken is our own bug and stops the process.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace pie {

class PagePool {
 public:
  explicit PagePool(uint32_t pages);

  std::optional<PageId> Take();  // with one reference; the lowest numbers first in a fresh pool
  void AddRef(PageId page);
  void Release(PageId page);  // the last reference frees the page

  uint32_t refs(PageId page) const;
  bool shared(PageId page) const { return refs(page) > 1; }
  uint32_t pages_total() const { return static_cast<uint32_t>(refs_.size()); }
  uint32_t pages_free() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t pages_used() const { return pages_total() - pages_free(); }

  // Every page is either free or referenced, never both, never neither.
  Status CheckIntegrity() const;
  // And referenced exactly as often as the page tables say: `holders` is all of them, concatenated.
  Status CheckIntegrity(std::span<const PageId> holders) const;

 private:
  std::vector<uint32_t> refs_;  // [pages]
  std::vector<PageId> free_;    // a stack
};

}  // namespace pie
