#include "sched/page_mover.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "backend/contain.h"

namespace pie {
namespace {

// Limit on the bytes of restored sequences that are written between two batches: a few
// milliseconds' worth.
constexpr size_t kRestoreBytes = size_t{16} << 20;

}  // namespace

bool PageMover::has_work() const {
  return half_restored_ || !lanes_.states().restoring().empty() ||
         !lanes_.states().reading().empty();
}

void PageMover::Move() {
  const LaneStates& states = lanes_.states();
  while (!states.reading().empty()) {
    Lane& lane = *states.reading().front();
    lanes_.EndRead(lane, ReadPages(lane, *lane.read));
  }
  half_restored_ = false;
  // One lane at a time: a lane that waits for pages is not overtaken by one that needs fewer.
  while (!half_restored_ && !states.restoring().empty()) {
    if (!Restore(*states.restoring().front())) break;
  }
}

bool PageMover::Restore(Lane& lane) {
  const RowsView rows = lane.parked->stored->rows().Sub(0, lane.parked->tokens);
  uint32_t done = lane.kv.tokens();
  if (done == 0) done = lane.kv.Adopt(rows);
  // Room is reserved for the pass as well. Otherwise the pass could come to wait for pages that
  // other restored lanes hold.
  const uint32_t missing = rows.size() - done;
  std::optional<PageCopy> copy;
  if (!lane.kv.Reserve(missing + lane.rows_wanted(), copy)) {
    lanes_.states().Suspend(lane);  // other lanes have taken the pages meanwhile
    return false;
  }
  const size_t pages = std::max<size_t>(1, kRestoreBytes / std::max<size_t>(1, info_.page_bytes));
  const uint32_t page_tokens = info_.page_tokens;
  const auto count = static_cast<uint32_t>(std::min<size_t>(missing, pages * page_tokens));
  const auto table = lane.kv.pages();
  for (uint32_t page = done / page_tokens; page * page_tokens < done + count; ++page) {
    Result<std::span<const std::byte>> content = lane.parked->stored->Page(page);
    Status written =
        content ? Contain(info_.name, [&] { return backend_.WritePage(table[page], *content); })
                : std::unexpected(content.error());
    if (written) written = lane.parked->stored->CheckWhole();
    if (!written) {
      lanes_.Break(lane, written.error());
      return true;
    }
    ++pages_restored_;
  }
  lane.kv.Append(rows.Sub(done, count));
  lane.kv.Publish();
  half_restored_ = lane.kv.tokens() < rows.size();
  if (!half_restored_) lanes_.states().EndReturn(lane);
  return true;
}

std::shared_ptr<const StoredKv> PageMover::SwapOut(const Lane& lane) {
  const std::span<const PageId> table = lane.kv.PagesOf(lane.kv.tokens());
  const auto pages = static_cast<uint32_t>(table.size());
  if (pages > swap_.pages_free()) return nullptr;
  if (!swap_always_ && !SwapIsCheaper(costs_, lane.kv.tokens(), pages)) return nullptr;
  const int64_t start_ns = clock_.NowNs();
  std::vector<std::byte> content(pages * info_.page_bytes);
  for (uint32_t i = 0; i < pages; ++i) {
    const auto room = std::span(content).subspan(i * info_.page_bytes, info_.page_bytes);
    if (!Contain(info_.name, [&] { return backend_.ReadPage(table[i], room); })) return nullptr;
  }
  Smooth(costs_.page_ns, static_cast<double>(clock_.NowNs() - start_ns) / pages);
  pages_swapped_ += pages;
  return swap_.Keep(lane.kv.history().From(0), std::move(content), info_.page_bytes);
}

void PageMover::AddStep(int64_t ns, size_t tokens) {
  Smooth(costs_.token_ns, static_cast<double>(ns) / static_cast<double>(tokens));
}

Result<KvContent> PageMover::ReadPages(const Lane& lane, const KvRead& read) {
  KvContent content;
  if (read.first_page == 0) {
    content.rows = lane.parked ? Rows() : lane.kv.history().From(0);
    if (lane.parked) content.rows.Append(lane.parked->stored->rows().Sub(0, lane.tokens()), 0);
  }
  const uint32_t held = (lane.tokens() + info_.page_tokens - 1) / info_.page_tokens;
  const uint32_t first = std::min(read.first_page, held);
  const uint32_t end = first + std::min(read.pages, held - first);
  content.bytes.resize((end - first) * info_.page_bytes);
  for (uint32_t page = first; page < end; ++page) {
    const auto room =
        std::span(content.bytes).subspan((page - first) * info_.page_bytes, info_.page_bytes);
    if (lane.parked) {
      const std::span<const std::byte> stored = PIE_TRY(lane.parked->stored->Page(page));
      std::memcpy(room.data(), stored.data(), room.size());
    } else {
      PIE_RETURN_IF_ERROR(
          Contain(info_.name, [&] { return backend_.ReadPage(lane.kv.pages()[page], room); }));
    }
  }
  return content;
}

}  // namespace pie
