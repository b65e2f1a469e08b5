// PageTokens: records which token is in which slot of a device's pages, for devices that need it.
// One owner, the step thread. Costs four bytes for each slot.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "base/brle.h"

namespace pie {

class PageTokens {
 public:
  PageTokens(uint32_t total_pages, uint32_t page_tokens)
      : page_tokens_(page_tokens), tokens_(size_t{total_pages} * page_tokens) {}

  size_t page_bytes() const { return size_t{page_tokens_} * sizeof(uint32_t); }

  // Makes the batch's copies of pages, and enters its tokens.
  void Enter(const Batch& batch) {
    for (const PageCopy& copy : batch.copies) {
      std::copy_n(Page(copy.from), page_tokens_, Page(copy.to));
    }
    for (const Batch::Member& member : batch.members) {
      const auto pages = std::span(batch.pages).subspan(member.first_page, member.pages);
      for (uint32_t i = 0; i < member.rows; ++i) {
        const uint32_t slot = member.kv_tokens + i;
        Page(pages[slot / page_tokens_])[slot % page_tokens_] = batch.tokens[member.first_row + i];
      }
    }
  }

  // The tokens that row `row` of a member attends to, in the order of their slots.
  std::vector<uint32_t> Attended(const Batch& batch, const Batch::Member& member, uint32_t row) {
    const auto pages = std::span(batch.pages).subspan(member.first_page, member.pages);
    std::vector<uint32_t> context;
    const auto add = [&](uint32_t begin, uint32_t end) {
      for (uint32_t slot = begin; slot < end; ++slot) {
        context.push_back(Page(pages[slot / page_tokens_])[slot % page_tokens_]);
      }
    };
    const uint32_t causal_end = member.kv_tokens + row + 1;
    const uint32_t mask_row = member.pass_row + row;
    if (member.attention == nullptr || mask_row >= member.attention->size()) {
      add(0, causal_end);
    } else {
      ForEachTrueRun((*member.attention)[mask_row], causal_end, add);
    }
    return context;
  }

  // Copy a page's tokens, page_bytes() bytes, out of this object and back.
  void Read(PageId page, std::span<std::byte> content) {
    std::memcpy(content.data(), Page(page), page_bytes());
  }
  void Write(PageId page, std::span<const std::byte> content) {
    std::memcpy(Page(page), content.data(), page_bytes());
  }

 private:
  uint32_t* Page(PageId page) { return &tokens_[size_t{page.value} * page_tokens_]; }

  const uint32_t page_tokens_;
  std::vector<uint32_t> tokens_;  // [total_pages, page_tokens]
};

}  // namespace pie
