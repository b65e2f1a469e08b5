#include "sched/page_mover.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "backend/contain.h"

namespace pie {
namespace {

// Reads that are answered between two batches, if they are as large as a read should be.
constexpr size_t kReadsAtOnce = 4;
constexpr size_t kRowBytes = 8;  // a token and its position

}  // namespace

bool PageMover::has_work() const {
  return half_restored_ || !lanes_.states().restoring().empty() ||
         !lanes_.states().reading().empty();
}

void PageMover::Move() {
  const LaneStates& states = lanes_.states();
  // Each thread that writes a snapshot reads some pages at a time, and there may be dozens of them.
  size_t bytes = 0;
  while (!states.reading().empty() && bytes < kReadsAtOnce * info_.read_bytes) {
    Lane& lane = *states.reading().front();
    Result<KvContent> content = ReadPages(lane, *lane.read);
    if (content) bytes += MaskBytes(content->rows) + content->rows.size() * kRowBytes;
    if (content && content->pages) bytes += content->pages->pages() * info_.page_bytes;
    lanes_.EndRead(lane, std::move(content));
  }
  half_restored_ = false;
  restored_bytes_ = 0;
  // One lane at a time: a lane that waits for pages is not overtaken by one that needs fewer.
  while (!half_restored_ && restored_bytes_ < info_.write_bytes && !states.restoring().empty()) {
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
  const size_t pages =
      std::max<size_t>(1, info_.write_bytes / std::max<size_t>(1, info_.page_bytes));
  const uint32_t page_tokens = info_.page_tokens;
  const auto count = static_cast<uint32_t>(std::min<size_t>(missing, pages * page_tokens));
  const uint32_t first = done / page_tokens;
  const uint32_t end = (done + count + page_tokens - 1) / page_tokens;
  const auto table = lane.kv.pages().subspan(first, end - first);
  const Status written =
      Contain(info_.name, [&] { return backend_.WritePages(table, *lane.parked->stored, first); });
  if (!written) {
    lanes_.Break(lane, written.error());
    return true;
  }
  pages_restored_ += end - first;
  const RowsView restored = rows.Sub(done, count);
  restored_bytes_ += table.size() * info_.page_bytes + restored.size() * kRowBytes;
  for (const Brle& mask : restored.masks) restored_bytes_ += mask.size() * sizeof(uint32_t);
  lane.kv.Append(restored);
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
  auto content = Contain(info_.name, [&] { return backend_.ReadPages(table); });
  if (!content) return nullptr;
  Smooth(costs_.page_ns, static_cast<double>(clock_.NowNs() - start_ns) / pages);
  pages_swapped_ += pages;
  return swap_.Keep(lane.kv.history().From(0), *std::move(content));
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
  if (!lane.parked) {
    const auto table = lane.kv.pages().subspan(first, end - first);
    content.pages = PIE_TRY(Contain(info_.name, [&] { return backend_.ReadPages(table); }));
    return content;
  }
  std::vector<std::byte> bytes;
  bytes.reserve((end - first) * info_.page_bytes);
  for (uint32_t page = first; page < end; ++page) {
    const std::span<const std::byte> stored = PIE_TRY(lane.parked->stored->Page(page));
    bytes.insert(bytes.end(), stored.begin(), stored.end());
  }
  content.pages = MakePageContents(std::move(bytes), info_.page_bytes);
  return content;
}

}  // namespace pie
