// ByteBudget: limits how many bytes, or objects of one kind, one party may hold at a time.
// Charge: an amount taken from a budget. Its destructor gives the amount back. Any thread may use a
// budget; a Charge has one owner.
//
// A budget may be part of a larger one: the budget of an inferlet is part of its user's, and that
// is part of the budget of all users. An amount that is taken from the part is also taken from the
// whole.
//
// A part with a share is limited by what the whole has left: with a share of 80 %, a user may
// hold at most four times as much as is free. So one user alone can fill 80 % of the whole, two
// users 44 % each, and there is always room for a user who holds little. While there is only one
// user, shares do not apply.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

namespace pie::host {

// Returns whether a part may hold `mine` while the whole has `free` left.
bool InShare(size_t mine, size_t free, uint32_t percent);

class ByteBudget {
 public:
  struct Part {
    uint32_t share_percent = 100;
    size_t grain = 1;  // the part takes multiples of this from the whole, so that it asks rarely
    const std::atomic<bool>* applies = nullptr;  // whether the share applies; null: always
    uint32_t share() const {
      return applies == nullptr || applies->load(std::memory_order_relaxed) ? share_percent : 100;
    }
  };

  explicit ByteBudget(size_t limit) : limit_(limit) {}
  ByteBudget(size_t limit, std::shared_ptr<ByteBudget> whole, Part part)
      : limit_(limit), whole_(std::move(whole)), part_(part) {}
  ~ByteBudget() {
    if (whole_) whole_->Give(reserved_.load());
  }
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Takes `bytes`. Returns false and takes nothing if that would exceed the limit, the limit of the
  // whole, or the share of the whole.
  bool Take(size_t bytes) {
    size_t used = used_.load(std::memory_order_relaxed);
    do {
      if (bytes > limit_ - used) return false;
    } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
    if (!whole_ || used + bytes <= reserved_.load(std::memory_order_relaxed)) return true;
    if (Reserve()) return true;
    used_.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  void Give(size_t bytes) {
    const size_t used = used_.fetch_sub(bytes, std::memory_order_relaxed) - bytes;
    // One grain is kept, because it may be needed again at once.
    const size_t kept = part_.grain > 1 ? part_.grain : 0;
    if (whole_ && reserved_.load(std::memory_order_relaxed) > used + kept) Unreserve();
  }

  size_t used() const { return used_.load(std::memory_order_relaxed); }
  size_t limit() const { return limit_; }
  // The outermost budget of which this one is a part, or this one if it is part of none.
  const ByteBudget& whole() const { return whole_ ? whole_->whole() : *this; }
  // Whether `bytes` more would exceed a limit or the share.
  bool Fits(size_t bytes) const;

 private:
  bool Reserve();    // takes the bytes that are used and not reserved yet from the whole
  void Unreserve();  // gives the bytes that are reserved and not used back to the whole
  bool TakeShare(size_t mine, size_t bytes, uint32_t percent);

  const size_t limit_;
  const std::shared_ptr<ByteBudget> whole_;
  const Part part_;
  std::atomic<size_t> used_ = 0;
  std::atomic<size_t> reserved_ = 0;  // taken from the whole
  std::mutex mutex_;                  // held while `reserved_` changes
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

  // A charge without a budget is not counted anywhere.
  bool Grow(size_t bytes) {
    if (budget_ && !budget_->Take(bytes)) return false;
    bytes_ += bytes;
    return true;
  }
  // Grows or shrinks to `bytes`.
  bool Resize(size_t bytes) {
    if (bytes > bytes_) return Grow(bytes - bytes_);
    const size_t spare = std::exchange(bytes_, bytes) - bytes;
    if (budget_) budget_->Give(spare);
    return true;
  }
  // Takes over a charge to the same budget. An empty charge takes over the budget as well.
  void Absorb(Charge other) {
    if (bytes_ == 0) budget_ = other.budget_;
    bytes_ += std::exchange(other.bytes_, 0);
  }
  Charge Same() const { return Charge(budget_); }  // an empty charge to the same budget
  void Release() {
    if (budget_) budget_->Give(std::exchange(bytes_, 0));
  }
  size_t bytes() const { return bytes_; }
  const ByteBudget* budget() const { return budget_.get(); }

 private:
  std::shared_ptr<ByteBudget> budget_;
  size_t bytes_ = 0;
};

}  // namespace pie::host
