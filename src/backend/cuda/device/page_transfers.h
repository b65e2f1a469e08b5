// PageTransfers: copies of KV pages between the device and the host, on streams of their own,
// beside the batches that run.
//
// A copy waits for the work that it depends on, and that work waits for it, by events on the
// device: the host waits only for memory to copy through. A copy out depends on earlier batches
// that write to its pages, and holds up later ones that do; a copy in depends on all that use its
// pages. Other batches run meanwhile. Threads read stored pages while they go into the device.
//
// Owner: the device. One thread at a time, but the contents that were read may be used by others.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/cuda/device/pinned_pool.h"
#include "backend/cuda/kernels/runtime.h"
#include "base/ids.h"
#include "base/result.h"
#include "base/thread_team.h"
#include "kv/stored_kv.h"

namespace pie::cuda {

// The state of a device, for threads that wait for its copies.
struct DeviceHealth {
  std::atomic<bool> lost = false;  // nothing that is under way will end well
  uint32_t limit_ms = 0;           // a copy that takes longer has failed
};

class PageTransfers {
 public:
  // How many bytes one call should read or write.
  static constexpr size_t kReadBytes = size_t{16} << 20;
  static constexpr size_t kWriteBytes = size_t{64} << 20;

  // `steps` is the stream of batches, and `pages` the memory of all pages.
  PageTransfers(Stream steps, std::byte* pages, size_t page_bytes, uint32_t total_pages,
                uint32_t page_tokens, std::shared_ptr<DeviceHealth> health);
  ~PageTransfers();  // waits for all copies
  PageTransfers(const PageTransfers&) = delete;
  PageTransfers& operator=(const PageTransfers&) = delete;

  // `flights` are the batches in flight.
  PageContentsPtr Read(std::span<const PageId> pages, std::span<const Batch* const> flights);
  Status Write(std::span<const PageId> pages, const StoredKv& stored, uint32_t first,
               std::span<const Batch* const> flights);

  // Everything launched on the stream of batches from now on comes after the copies that this batch
  // depends on.
  void Precede(const Batch& batch);
  void PrecedeAll();

  // The device does not answer any more: nothing waits for it from now on.
  void Abandon();

 private:
  // The device is done with this copy and those before it in its direction.
  struct Mark {
    uint64_t number = 0;
    std::shared_ptr<CUevent_st> event;
  };
  // Copies of one direction, which run in order.
  struct Direction {
    Stream stream = nullptr;
    uint64_t last = 0;                   // number of the last copy
    std::deque<Mark> marks;              // of those that may be under way
    std::vector<uint64_t> copy_of_page;  // the last copy of each page; 0: none
    const Mark* Find(uint64_t number) const;
    void Forget();  // removes the marks of copies that have ended
  };
  struct Piece {
    PinnedPool::Buffer buffer;
    std::shared_ptr<CUevent_st> event;
  };
  class Contents;

  Mark& Record(Direction& direction, std::span<const PageId> pages);
  void WaitForBatches(Stream stream);
  void WaitForCopies(Stream stream, const Direction& direction, uint64_t number);
  // The number of the last copy of any of these pages.
  static uint64_t LastOf(const Direction& direction, std::span<const PageId> pages);
  template <class Visit>
  void VisitWritten(const Batch& batch, Visit&& visit) const;
  bool AnyUses(std::span<const Batch* const> flights, bool writes_only) const;
  void MarkPages(std::span<const PageId> pages, bool value);

  const Stream steps_;
  std::byte* const pages_;
  const size_t page_bytes_;
  const uint32_t page_tokens_;
  const std::shared_ptr<DeviceHealth> health_;
  const std::shared_ptr<PinnedPool> pool_;
  Direction out_;
  Direction in_;
  Event batches_;                   // recorded anew for each use
  std::vector<bool> marked_;        // pages of the copy that is being planned
  std::deque<Piece> going_in_;      // buffers that the device still reads
  std::optional<ThreadTeam> team_;  // made for the first write
  bool abandoned_ = false;
};

}  // namespace pie::cuda
