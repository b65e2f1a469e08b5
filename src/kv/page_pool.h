// PagePool: which pages of a device's KV memory are in use, and by how many. Pages are numbers
// here; their contents live in the backend.
//
// Pages that nobody needs but that may be useful again are cached (PrefixIndex): they count as
// free, and Take gives one of them away when no other page is left.
//
// Owner: the step thread. Every call is O(1) but CheckIntegrity (and what the cache needs to choose
// a page). A full pool is an ordinary answer (nullopt); giving back what was not taken is our own
// bug and stops the process.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace pie {

// Holds pages that it can do without.
class PageCache {
 public:
  virtual ~PageCache() = default;
  virtual uint32_t pages_cached() const = 0;
  virtual void ReleaseOne() = 0;  // to the pool; called only while pages_cached() > 0
};

class PagePool {
 public:
  explicit PagePool(uint32_t pages);
  // At most one; null = none. It outlives the pool's use.
  void SetCache(PageCache* cache) { cache_ = cache; }

  std::optional<PageId> Take();  // with one reference; the lowest numbers first in a fresh pool
  void AddRef(PageId page);
  void Release(PageId page);  // the last reference frees the page

  uint32_t refs(PageId page) const;
  bool shared(PageId page) const { return refs(page) > 1; }
  uint32_t pages_total() const { return static_cast<uint32_t>(refs_.size()); }
  // That Take could give, cached ones included.
  uint32_t pages_free() const { return static_cast<uint32_t>(free_.size()) + pages_cached(); }
  uint32_t pages_cached() const { return cache_ == nullptr ? 0 : cache_->pages_cached(); }
  uint32_t pages_used() const { return pages_total() - pages_free(); }

  // Every page is either free or referenced, never both, never neither.
  Status CheckIntegrity() const;
  // And referenced exactly as often as the page tables say: `holders` is all of them, concatenated.
  Status CheckIntegrity(std::span<const PageId> holders) const;

 private:
  std::vector<uint32_t> refs_;  // [pages]
  std::vector<PageId> free_;    // a stack
  PageCache* cache_ = nullptr;
};

}  // namespace pie
