#include "bare_loop.h"

#include <algorithm>
#include <array>
#include <deque>

#include "must.h"

namespace pie {
namespace {

// A batch's output, none of whose members failed.
BatchOutput Complete(Result<BatchOutput> result) {
  BatchOutput output = Must(std::move(result));
  if (!output.failures.empty()) Must<int>(std::unexpected(output.failures[0].error));
  return output;
}

}  // namespace

void BareLoop::Feed(Sequence& sequence, std::span<const uint32_t> tokens) {
  const size_t most = backend_.info().max_batch_tokens;
  while (!tokens.empty()) {
    const std::span<const uint32_t> chunk = tokens.first(std::min(most, tokens.size()));
    Add(batch_, sequence, chunk);
    const BatchOutput output = Run(static_cast<uint32_t>(chunk.size()));
    sequence.next = std::get<TokenSlot>(output.slots[0].at(0)).token;
    tokens = tokens.subspan(chunk.size());
  }
}

void BareLoop::Step(std::span<Sequence> sequences) {
  for (Sequence& sequence : sequences) Add(batch_, sequence, {&sequence.next, 1});
  const BatchOutput output = Run(1);
  for (size_t i = 0; i < sequences.size(); ++i) {
    sequences[i].next = std::get<TokenSlot>(output.slots[i].at(0)).token;
  }
}

std::vector<std::chrono::steady_clock::time_point> BareLoop::Chain(std::span<Sequence> sequences,
                                                                   uint32_t steps) {
  std::vector<std::chrono::steady_clock::time_point> ended;
  std::array<Batch, 2> batches;
  std::deque<Backend::Ticket> flights;
  last_row_[0].rows[0] = 0;
  while (ended.size() < steps) {
    const size_t submitted = ended.size() + flights.size();
    if (flights.size() == batches.size() || submitted == steps) {
      const BatchOutput output = Complete(backend_.Wait(flights.front()));
      ended.push_back(std::chrono::steady_clock::now());
      flights.pop_front();
      if (ended.size() < steps) continue;
      for (size_t i = 0; i < sequences.size(); ++i) {
        sequences[i].next = std::get<TokenSlot>(output.slots[i].at(0)).token;
      }
      break;
    }
    Batch& batch = batches[submitted % batches.size()];
    batch.members.clear();
    batch.tokens.clear();
    batch.pages.clear();
    batch.positions.clear();
    batch.carried.clear();
    for (uint32_t i = 0; i < sequences.size(); ++i) {
      Add(batch, sequences[i], {&sequences[i].next, 1});
      if (submitted > 0) batch.carried.push_back({.row = i, .batch = flights.back(), .member = i});
    }
    flights.push_back(Must(backend_.Submit(batch)));
  }
  return ended;
}

void BareLoop::Add(Batch& batch, Sequence& sequence, std::span<const uint32_t> tokens) {
  const uint32_t page_tokens = backend_.info().page_tokens;
  const auto rows = static_cast<uint32_t>(tokens.size());
  const uint32_t pages = (sequence.tokens + rows + page_tokens - 1) / page_tokens;
  while (sequence.pages.size() < pages) {
    if (free_page_ == backend_.info().total_pages) {
      Must<int>(Fail(Code::kExhausted, "out of pages: use fewer sequences or tokens"));
    }
    sequence.pages.push_back(PageId{free_page_++});
  }
  batch.members.push_back({.first_row = static_cast<uint32_t>(batch.tokens.size()),
                           .rows = rows,
                           .first_page = static_cast<uint32_t>(batch.pages.size()),
                           .pages = pages,
                           .kv_tokens = sequence.tokens,
                           .samples = &last_row_,
                           .adapter = sequence.adapter,
                           .zo_seed = sequence.zo_seed,
                           .zo_sigma = sequence.zo_sigma});
  batch.tokens.insert(batch.tokens.end(), tokens.begin(), tokens.end());
  batch.pages.insert(batch.pages.end(), sequence.pages.begin(), sequence.pages.begin() + pages);
  for (uint32_t i = 0; i < rows; ++i) batch.positions.push_back(sequence.tokens + i);
  sequence.tokens += rows;
}

BatchOutput BareLoop::Run(uint32_t rows) {
  last_row_[0].rows[0] = rows - 1;
  BatchOutput output = Complete(backend_.Wait(Must(backend_.Submit(batch_))));
  batch_.members.clear();
  batch_.tokens.clear();
  batch_.pages.clear();
  batch_.positions.clear();
  return output;
}

}  // namespace pie
