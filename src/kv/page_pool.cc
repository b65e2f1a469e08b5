#include "kv/page_pool.h"

namespace pie {

PagePool::PagePool(uint32_t pages) : refs_(pages, 0), free_(pages) {
  for (uint32_t i = 0; i < pages; ++i) free_[i] = PageId{pages - 1 - i};
}

std::optional<PageId> PagePool::Take() {
  if (free_.empty() && pages_cached() > 0) cache_->ReleaseOne();
  if (free_.empty()) return std::nullopt;
  const PageId page = free_.back();
  free_.pop_back();
  refs_[page.value] = 1;
  return page;
}

void PagePool::AddRef(PageId page) {
  PIE_CHECK(page.value < refs_.size() && refs_[page.value] > 0);
  ++refs_[page.value];
}

void PagePool::Release(PageId page) {
  PIE_CHECK(page.value < refs_.size() && refs_[page.value] > 0);
  if (--refs_[page.value] == 0) free_.push_back(page);
}

uint32_t PagePool::refs(PageId page) const {
  PIE_CHECK(page.value < refs_.size());
  return refs_[page.value];
}

Status PagePool::CheckIntegrity(const Interruption& interruption) const {
  std::vector<bool> is_free(refs_.size());
  for (PageId page : free_) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    if (page.value >= refs_.size()) {
      return Fail(Code::kInternal, "the free list holds page {} of {}", page.value, refs_.size());
    }
    if (is_free[page.value]) {
      return Fail(Code::kInternal, "page {} is in the free list twice", page.value);
    }
    is_free[page.value] = true;
  }
  for (uint32_t i = 0; i < refs_.size(); ++i) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    if (is_free[i] != (refs_[i] == 0)) {
      return Fail(Code::kInternal, "page {} is {} with {} references", i,
                  is_free[i] ? "free" : "lost", refs_[i]);
    }
  }
  return {};
}

Status PagePool::CheckIntegrity(std::span<const PageId> holders,
                                const Interruption& interruption) const {
  PIE_RETURN_IF_ERROR(CheckIntegrity(interruption));
  std::vector<uint32_t> held(refs_.size(), 0);
  for (PageId page : holders) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    if (page.value >= refs_.size()) {
      return Fail(Code::kInternal, "a page table holds page {} of {}", page.value, refs_.size());
    }
    ++held[page.value];
  }
  for (uint32_t i = 0; i < refs_.size(); ++i) {
    PIE_RETURN_IF_ERROR(interruption.Step());
    if (held[i] != refs_[i]) {
      return Fail(Code::kInternal, "page {} counts {} references, page tables hold {}", i, refs_[i],
                  held[i]);
    }
  }
  return {};
}

}  // namespace pie
