// ByteBudget: memory that one party may keep in the engine at a time; and Charge, a part of it that
// is given back by destruction. Any thread may use a budget; a Charge has one owner.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

namespace pie::host {

class ByteBudget {
 public:
  explicit ByteBudget(size_t limit) : limit_(limit) {}

  // False, and nothing taken, if that would be more than the limit.
  bool Take(size_t bytes) {
    size_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    return true;
  }
  void Give(size_t bytes) { used_.fetch_sub(bytes, std::memory_order_relaxed); }

  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t limit() const { return limit_; }

 private:
  const size_t limit_;
  std::atomic<size_t> used_ = 0;
};

class Charge {
 public:
  Charge() = default;
  explicit Charge(std::shared_ptr<ByteBudget> budget) : budget_(std::move(budget)) {}
  Charge(Charge&& other) noexcept
      : budget_(std::move(other.budget_)), bytes_(std::exchange(other.bytes_, 0)) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Charge() { Release(); }

  bool Grow(size_t bytes) {
    if (!budget_->Take(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  void Release() {
    if (budget_) budget_->Give(std::exchange(bytes_, 0));
  }
  size_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<ByteBudget> budget_;
  size_t bytes_ = 0;
};

}  // namespace pie::host
