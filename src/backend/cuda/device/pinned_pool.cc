#include "backend/cuda/device/pinned_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "backend/cuda/kernels/runtime.h"

namespace pie::cuda {

PinnedPool::~PinnedPool() {
  if (abandoned_) return;
  for (std::byte* const data : free_) FreePinned(data);
}

PinnedPool::Buffer PinnedPool::Take() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::byte* const data = free_.back();
      free_.pop_back();
      return {shared_from_this(), data};
    }
  }
  auto* data = static_cast<std::byte*>(AllocatePinned(buffer_bytes_));
  if (data == nullptr) {
    data = static_cast<std::byte*>(std::malloc(buffer_bytes_));
    if (data == nullptr) throw std::bad_alloc();
    const std::lock_guard lock(mutex_);
    unpinned_.push_back(data);
  }
  return {shared_from_this(), data};
}

void PinnedPool::GiveBack(std::byte* data) {
  const std::lock_guard lock(mutex_);
  if (std::erase(unpinned_, data) > 0) {
    std::free(data);
  } else {
    free_.push_back(data);
  }
}

}  // namespace pie::cuda
