// Pinned memory of the host in buffers of one size, which the device copies to and from by itself.
//
// Pinning takes milliseconds, so a buffer that was given back is kept for the next one. The pool is
// shared by the device and by the contents that came from it, which any thread may hold. Any thread
// may give a buffer back; only the device's own may take one.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace pie::cuda {

class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  // A buffer of the pool, or of ordinary memory if none can be pinned: copies to it are slower.
  class Buffer {
   public:
    Buffer(std::shared_ptr<PinnedPool> pool, std::byte* data)
        : pool_(std::move(pool)), data_(data) {}
    ~Buffer() {
      if (data_ != nullptr) pool_->GiveBack(data_);
    }
    Buffer(Buffer&& other) noexcept
        : pool_(std::move(other.pool_)), data_(std::exchange(other.data_, nullptr)) {}
    Buffer& operator=(Buffer&&) = delete;
    std::byte* data() const { return data_; }

   private:
    std::shared_ptr<PinnedPool> pool_;
    std::byte* data_;
  };

  explicit PinnedPool(size_t buffer_bytes) : buffer_bytes_(buffer_bytes) {}
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  size_t buffer_bytes() const { return buffer_bytes_; }
  Buffer Take();
  // Leaves the memory to the end of the process: giving it back would wait for the device.
  void Abandon() { abandoned_ = true; }

 private:
  void GiveBack(std::byte* data);

  const size_t buffer_bytes_;
  std::atomic<bool> abandoned_ = false;
  std::mutex mutex_;
  std::vector<std::byte*> free_;
  std::vector<std::byte*> unpinned_;  // all of them
};

}  // namespace pie::cuda
