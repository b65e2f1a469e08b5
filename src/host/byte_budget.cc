#include "host/byte_budget.h"

#include "base/round_up.h"

namespace pie::host {
bool InShare(size_t mine, size_t free, uint32_t percent) {
  if (percent >= 100) return true;
  using Wide = unsigned __int128;
  return Wide{mine} * (100 - percent) <= Wide{free} * percent;
}

bool ByteBudget::TakeShare(size_t mine, size_t bytes, uint32_t percent) {
  if (!InShare(mine, limit_ - used_.load(std::memory_order_relaxed), percent)) return false;
  return Take(bytes);
}

bool ByteBudget::Fits(size_t bytes) const {
  const size_t used = this->used();
  if (bytes > limit_ - used) return false;
  if (!whole_) return true;
  const size_t reserved = reserved_.load(std::memory_order_relaxed);
  if (used + bytes <= reserved) return true;
  return InShare(used + bytes, whole_->limit_ - whole_->used(), part_.share()) &&
         whole_->Fits(used + bytes - reserved);
}

bool ByteBudget::Reserve() {
  std::lock_guard lock(mutex_);
  const size_t used = used_.load(std::memory_order_relaxed);
  const size_t reserved = reserved_.load(std::memory_order_relaxed);
  for (const size_t wanted : {RoundUp(used, part_.grain), used}) {
    if (wanted <= reserved) return true;
    if (whole_->TakeShare(wanted, wanted - reserved, part_.share())) {
      reserved_.store(wanted, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

void ByteBudget::Unreserve() {
  std::lock_guard lock(mutex_);
  const size_t needed = RoundUp(used_.load(std::memory_order_relaxed), part_.grain);
  const size_t reserved = reserved_.load(std::memory_order_relaxed);
  if (needed >= reserved) return;
  reserved_.store(needed, std::memory_order_relaxed);
  whole_->Give(reserved - needed);
}

}  // namespace pie::host
