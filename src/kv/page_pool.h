// PagePool: which pages of a device's KV memory are in use, and how many references each has. Pages
// are numbers here; their contents live in the backend.
//
// A page without users that may be useful again is cached (PrefixIndex). It counts as free, and
// Take gives it away when no other page is left.
//
// Owner: the step thread. Every call is O(1), except CheckIntegrity and the cache's choice of a
// page. A full pool is an ordinary answer (nullopt). Releasing a page that was not taken is a bug
// of the engine and stops the process.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/interruption.h"
#include "base/result.h"

namespace pie {

// A cache of pages that can be dropped.
class PageCache {
 public:
  virtual ~PageCache() = default;
  virtual uint32_t pages_cached() const = 0;
  virtual void ReleaseOne() = 0;  // to the pool; called only while pages_cached() > 0
};

class PagePool {
 public:
  explicit PagePool(uint32_t pages);
  // Sets the cache; null = none. It outlives the pool's use.
  void SetCache(PageCache* cache) { cache_ = cache; }

  std::optional<PageId> Take();  // with one reference; the lowest numbers first in a fresh pool
  void AddRef(PageId page);
  void Release(PageId page);  // the last reference frees the page

  uint32_t refs(PageId page) const;
  bool shared(PageId page) const { return refs(page) > 1; }
  uint32_t pages_total() const { return static_cast<uint32_t>(refs_.size()); }
  // Pages that Take could give, cached ones included.
  uint32_t pages_free() const { return static_cast<uint32_t>(free_.size()) + pages_cached(); }
  uint32_t pages_cached() const { return cache_ == nullptr ? 0 : cache_->pages_cached(); }
  uint32_t pages_used() const { return pages_total() - pages_free(); }

  // Checks that every page is either free or referenced, and not both.
  Status CheckIntegrity(const Interruption& interruption = {}) const;
  // Also checks that the references of each page equal the number of page tables that hold it.
  // `holders` is all page tables, concatenated.
  Status CheckIntegrity(std::span<const PageId> holders,
                        const Interruption& interruption = {}) const;

 private:
  std::vector<uint32_t> refs_;  // [pages]
  std::vector<PageId> free_;    // a stack
  PageCache* cache_ = nullptr;
};

}  // namespace pie
