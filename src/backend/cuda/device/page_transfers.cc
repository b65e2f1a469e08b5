#include "backend/cuda/device/page_transfers.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>
#include <utility>

namespace pie::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// Threads that read stored pages. More of them do not read faster.
constexpr size_t kMostThreads = 12;
// Buffers that copies into the device may hold, in bytes.
constexpr size_t kMostGoingIn = 3 * PageTransfers::kWriteBytes;

std::shared_ptr<CUevent_st> NewEvent() {
  return {MakeEvent(), DestroyEvent};
}

// Waits until the device has passed the event.
Status WaitOnHost(Event event, const DeviceHealth& health) {
  const auto start = Clock::now();
  while (!IsDone(event)) {
    if (health.lost) break;
    if (Clock::now() - start > std::chrono::milliseconds(health.limit_ms)) {
      return Fail(Code::kInternal, "the CUDA device does not answer: pages could not be copied");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (health.lost) {
    return Fail(Code::kInternal, "the CUDA device failed while pages were copied");
  }
  return {};
}

}  // namespace

// Pages in pieces, each in a buffer of the pool.
class PageTransfers::Contents final : public PageContents {
 public:
  Contents(std::vector<Piece> pieces, uint32_t pages, uint32_t pages_a_piece, size_t page_bytes,
           std::shared_ptr<const DeviceHealth> health)
      : pieces_(std::move(pieces)),
        pages_(pages),
        pages_a_piece_(pages_a_piece),
        page_bytes_(page_bytes),
        health_(std::move(health)) {}
  // The device may still write to the buffers.
  ~Contents() override {
    for (const Piece& piece : pieces_) static_cast<void>(WaitOnHost(piece.event.get(), *health_));
  }

  uint32_t pages() const override { return pages_; }
  Result<std::span<const std::byte>> Page(uint32_t index) const override {
    const Piece& piece = pieces_[index / pages_a_piece_];
    PIE_RETURN_IF_ERROR(WaitOnHost(piece.event.get(), *health_));
    return std::span(piece.buffer.data() + index % pages_a_piece_ * page_bytes_, page_bytes_);
  }

 private:
  const std::vector<Piece> pieces_;
  const uint32_t pages_;
  const uint32_t pages_a_piece_;
  const size_t page_bytes_;
  const std::shared_ptr<const DeviceHealth> health_;
};

PageTransfers::PageTransfers(Stream steps, std::byte* pages, size_t page_bytes,
                             uint32_t total_pages, uint32_t page_tokens,
                             std::shared_ptr<DeviceHealth> health)
    : steps_(steps),
      pages_(pages),
      page_bytes_(page_bytes),
      page_tokens_(page_tokens),
      health_(std::move(health)),
      pool_(std::make_shared<PinnedPool>(
          std::clamp<size_t>(kReadBytes / page_bytes, 1, total_pages) * page_bytes)),
      batches_(MakeEvent()),
      marked_(total_pages) {
  for (Direction* const direction : {&out_, &in_}) {
    direction->stream = MakeCopyStream();
    direction->copy_of_page.resize(total_pages);
  }
}

PageTransfers::~PageTransfers() {
  if (abandoned_) return;
  for (const Direction* const direction : {&out_, &in_}) {
    Synchronize(direction->stream);
    DestroyStream(direction->stream);
  }
  DestroyEvent(batches_);
}

void PageTransfers::Abandon() {
  abandoned_ = true;
  pool_->Abandon();
}

const PageTransfers::Mark* PageTransfers::Direction::Find(uint64_t number) const {
  const auto found = std::ranges::lower_bound(marks, number, {}, &Mark::number);
  return found == marks.end() ? nullptr : &*found;
}

void PageTransfers::Direction::Forget() {
  while (!marks.empty() && IsDone(marks.front().event.get())) marks.pop_front();
}

PageTransfers::Mark& PageTransfers::Record(Direction& direction, std::span<const PageId> pages) {
  Mark& mark = direction.marks.emplace_back(Mark{++direction.last, NewEvent()});
  RecordEvent(mark.event.get(), direction.stream);
  for (const PageId page : pages) direction.copy_of_page[page.value] = mark.number;
  return mark;
}

void PageTransfers::WaitForBatches(Stream stream) {
  RecordEvent(batches_, steps_);
  WaitFor(batches_, stream);
}

void PageTransfers::WaitForCopies(Stream stream, const Direction& direction, uint64_t number) {
  if (const Mark* const mark = direction.Find(number)) {
    if (mark->number == number) WaitFor(mark->event.get(), stream);
  }
}

uint64_t PageTransfers::LastOf(const Direction& direction, std::span<const PageId> pages) {
  uint64_t last = 0;
  for (const PageId page : pages) last = std::max(last, direction.copy_of_page[page.value]);
  return last;
}

// Calls visit(page) for the pages that a batch writes to.
template <class Visit>
void PageTransfers::VisitWritten(const Batch& batch, Visit&& visit) const {
  for (const PageCopy& copy : batch.copies) visit(copy.to);
  for (const Batch::Member& member : batch.members) {
    if (member.rows == 0) continue;
    const uint32_t end = (member.kv_tokens + member.rows - 1) / page_tokens_ + 1;
    for (uint32_t i = member.kv_tokens / page_tokens_; i < std::min(end, member.pages); ++i) {
      visit(batch.pages[member.first_page + i]);
    }
  }
}

void PageTransfers::MarkPages(std::span<const PageId> pages, bool value) {
  for (const PageId page : pages) marked_[page.value] = value;
}

// Whether a batch in flight uses a marked page.
bool PageTransfers::AnyUses(std::span<const Batch* const> flights, bool writes_only) const {
  bool any = false;
  const auto look = [&](PageId page) { any = any || marked_[page.value]; };
  for (const Batch* const batch : flights) {
    VisitWritten(*batch, look);
    if (writes_only) continue;
    for (const PageId page : batch->pages) look(page);
    for (const PageCopy& copy : batch->copies) look(copy.from);
  }
  return any;
}

PageContentsPtr PageTransfers::Read(std::span<const PageId> pages,
                                    std::span<const Batch* const> flights) {
  out_.Forget();
  in_.Forget();
  MarkPages(pages, true);
  if (AnyUses(flights, true)) WaitForBatches(out_.stream);
  MarkPages(pages, false);
  WaitForCopies(out_.stream, in_, LastOf(in_, pages));
  const size_t pages_a_piece = pool_->buffer_bytes() / page_bytes_;
  std::vector<Piece> pieces;
  for (size_t first = 0; first < pages.size(); first += pages_a_piece) {
    const auto part = pages.subspan(first, std::min(pages_a_piece, pages.size() - first));
    PinnedPool::Buffer buffer = pool_->Take();
    for (size_t i = 0; i < part.size(); ++i) {
      CopyOut(buffer.data() + i * page_bytes_, pages_ + part[i].value * page_bytes_, page_bytes_,
              out_.stream);
    }
    pieces.push_back({std::move(buffer), Record(out_, part).event});
  }
  return std::make_shared<Contents>(std::move(pieces), static_cast<uint32_t>(pages.size()),
                                    static_cast<uint32_t>(pages_a_piece), page_bytes_, health_);
}

Status PageTransfers::Write(std::span<const PageId> pages, const StoredKv& stored, uint32_t first,
                            std::span<const Batch* const> flights) {
  out_.Forget();
  in_.Forget();
  if (!team_) team_.emplace("pie-pages", ThreadTeam::Size(kMostThreads));
  const size_t pages_a_piece = pool_->buffer_bytes() / page_bytes_;
  const size_t pieces = (pages.size() + pages_a_piece - 1) / pages_a_piece;
  while (!going_in_.empty()) {
    const bool room = (going_in_.size() + pieces) * pool_->buffer_bytes() <= kMostGoingIn;
    if (room && !IsDone(going_in_.front().event.get())) break;
    PIE_RETURN_IF_ERROR(WaitOnHost(going_in_.front().event.get(), *health_));
    going_in_.pop_front();
  }
  std::vector<PinnedPool::Buffer> buffers;
  for (size_t i = 0; i < pieces; ++i) buffers.push_back(pool_->Take());
  const auto room_of = [&](size_t i) {
    return std::span(buffers[i / pages_a_piece].data() + i % pages_a_piece * page_bytes_,
                     page_bytes_);
  };
  std::mutex mutex;
  Status status;
  team_->Run(pages.size(), [&](size_t i) {
    Status read = stored.ReadPage(first + static_cast<uint32_t>(i), room_of(i));
    if (read) return;
    const std::lock_guard lock(mutex);
    status = std::move(read);
  });
  PIE_RETURN_IF_ERROR(status);
  MarkPages(pages, true);
  if (AnyUses(flights, false)) WaitForBatches(in_.stream);
  MarkPages(pages, false);
  WaitForCopies(in_.stream, out_, LastOf(out_, pages));
  for (size_t i = 0; i < pages.size(); ++i) {
    CopyIn(pages_ + pages[i].value * page_bytes_, room_of(i).data(), page_bytes_, in_.stream);
  }
  const Mark& mark = Record(in_, pages);
  for (PinnedPool::Buffer& buffer : buffers) going_in_.push_back({std::move(buffer), mark.event});
  return {};
}

void PageTransfers::Precede(const Batch& batch) {
  if (out_.marks.empty() && in_.marks.empty()) return;
  out_.Forget();
  in_.Forget();
  uint64_t read = 0;
  uint64_t written = LastOf(in_, batch.pages);
  for (const PageCopy& copy : batch.copies) {
    for (const PageId page : {copy.from, copy.to}) {
      written = std::max(written, in_.copy_of_page[page.value]);
    }
  }
  VisitWritten(batch, [&](PageId page) { read = std::max(read, out_.copy_of_page[page.value]); });
  WaitForCopies(steps_, in_, written);
  WaitForCopies(steps_, out_, read);
}

void PageTransfers::PrecedeAll() {
  WaitForCopies(steps_, in_, in_.last);
  WaitForCopies(steps_, out_, out_.last);
}

}  // namespace pie::cuda
