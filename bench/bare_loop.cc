#include "bare_loop.h"

#include <algorithm>

#include "must.h"

namespace pie {

void BareLoop::Feed(Sequence& sequence, std::span<const uint32_t> tokens) {
  const size_t most = backend_.info().max_batch_tokens;
  while (!tokens.empty()) {
    const std::span<const uint32_t> chunk = tokens.first(std::min(most, tokens.size()));
    Add(sequence, chunk);
    const BatchOutput output = Run(static_cast<uint32_t>(chunk.size()));
    sequence.next = std::get<TokenSlot>(output.slots[0].at(0)).token;
    tokens = tokens.subspan(chunk.size());
  }
}

void BareLoop::Step(std::span<Sequence> sequences) {
  for (Sequence& sequence : sequences) Add(sequence, {&sequence.next, 1});
  const BatchOutput output = Run(1);
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].next = std::get<TokenSlot>(output.slots[i].at(0)).token;
  }
}

void BareLoop::Add(Sequence& sequence, std::span<const uint32_t> tokens) {
  const uint32_t page_tokens = backend_.info().page_tokens;
  const auto rows = static_cast<uint32_t>(tokens.size());
  const uint32_t pages = (sequence.tokens + rows + page_tokens - 1) / page_tokens;
  while (sequence.pages.size() < pages) {
    if (free_page_ == backend_.info().total_pages) {
      Must<int>(Fail(Code::kExhausted, "out of pages: use fewer sequences or tokens"));
    }
    sequence.pages.push_back(PageId{free_page_++});
  }
  batch_.members.push_back({.first_row = static_cast<uint32_t>(batch_.tokens.size()),
                            .rows = rows,
                            .first_page = static_cast<uint32_t>(batch_.pages.size()),
                            .pages = pages,
                            .kv_tokens = sequence.tokens,
                            .samples = &last_row_,
                            .adapter = sequence.adapter,
                            .zo_seed = sequence.zo_seed,
                            .zo_sigma = sequence.zo_sigma});
  batch_.tokens.insert(batch_.tokens.end(), tokens.begin(), tokens.end());
  batch_.pages.insert(batch_.pages.end(), sequence.pages.begin(), sequence.pages.begin() + pages);
  for (uint32_t i = 0; i < rows; ++i) batch_.positions.push_back(sequence.tokens + i);
  sequence.tokens += rows;
}

BatchOutput BareLoop::Run(uint32_t rows) {
  last_row_[0].rows[0] = rows - 1;
  BatchOutput output = Must(backend_.Wait(Must(backend_.Submit(batch_))));
  batch_.members.clear();
  batch_.tokens.clear();
  batch_.pages.clear();
  batch_.positions.clear();
  return output;
}

}  // namespace pie
