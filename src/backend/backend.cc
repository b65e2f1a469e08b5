#include "backend/backend.h"

#include <utility>
#include <vector>

namespace pie {

Result<PageContentsPtr> Backend::ReadPages(std::span<const PageId> pages) {
  const size_t page_bytes = info().page_bytes;
  std::vector<std::byte> bytes(pages.size() * page_bytes);
  for (size_t i = 0; i < pages.size(); ++i) {
    PIE_RETURN_IF_ERROR(ReadPage(pages[i], std::span(bytes).subspan(i * page_bytes, page_bytes)));
  }
  return MakePageContents(std::move(bytes), page_bytes);
}

Status Backend::WritePages(std::span<const PageId> pages, const StoredKv& stored, uint32_t first) {
  for (size_t i = 0; i < pages.size(); ++i) {
    const auto content = PIE_TRY(stored.Page(first + static_cast<uint32_t>(i)));
    PIE_RETURN_IF_ERROR(WritePage(pages[i], content));
    PIE_RETURN_IF_ERROR(stored.CheckWhole());
  }
  return {};
}

}  // namespace pie
