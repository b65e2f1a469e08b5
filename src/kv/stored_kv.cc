#include "kv/stored_kv.h"

#include <cstring>
#include <utility>

namespace pie {
namespace {

class ContentsInMemory final : public PageContents {
 public:
  ContentsInMemory(std::vector<std::byte> bytes, size_t page_bytes)
      : bytes_(std::move(bytes)), page_bytes_(page_bytes) {}

  uint32_t pages() const override {
    return page_bytes_ == 0 ? 0 : static_cast<uint32_t>(bytes_.size() / page_bytes_);
  }
  Result<std::span<const std::byte>> Page(uint32_t index) const override {
    return std::span(bytes_).subspan(index * page_bytes_, page_bytes_);
  }

 private:
  const std::vector<std::byte> bytes_;
  const size_t page_bytes_;
};

}  // namespace

Status StoredKv::ReadPage(uint32_t index, std::span<std::byte> room) const {
  const std::span<const std::byte> content = PIE_TRY(Page(index));
  PIE_CHECK(content.size() == room.size());
  std::memcpy(room.data(), content.data(), room.size());
  return CheckWhole();
}

PageContentsPtr MakePageContents(std::vector<std::byte> bytes, size_t page_bytes) {
  return std::make_shared<ContentsInMemory>(std::move(bytes), page_bytes);
}

}  // namespace pie
