// HandleTable: the objects of one kind that a guest holds, by number. A Process owns the table, and
// one thread at a time uses it. Objects that are still in the table when the Process ends are
// destroyed with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "host/byte_budget.h"

namespace pie::host {

// The memory of a small object and its place in a table.
inline constexpr size_t kHandleBytes = 256;

template <class T>
class HandleTable {
 public:
  // `kind` is the name of the objects in errors. `live` counts the handles in all tables of the
  // engine. `memory` is charged `bytes` for each object, in addition to the object's own charges.
  HandleTable(const char* kind, uint32_t limit, std::atomic<int64_t>* live,
              ByteBudget* memory = nullptr, size_t bytes = kHandleBytes)
      : kind_(kind), limit_(limit), live_(live), memory_(memory), bytes_(bytes) {}
  ~HandleTable() {
    live_->fetch_sub(size_, std::memory_order_relaxed);
    if (memory_ != nullptr) memory_->Give(size_ * bytes_);
  }
  HandleTable(const HandleTable&) = delete;
  HandleTable& operator=(const HandleTable&) = delete;

  Result<uint32_t> Insert(std::unique_ptr<T> object) {
    if (size_ >= limit_) {
      return Fail(Code::kExhausted, "handle limit: the inferlet holds {} objects of kind {}", size_,
                  kind_);
    }
    if (memory_ != nullptr && !memory_->Take(bytes_)) {
      return Fail(Code::kExhausted, "memory limit: there is no room for another object of kind {}",
                  kind_);
    }
    ++size_;
    live_->fetch_add(1, std::memory_order_relaxed);
    if (!free_.empty()) {
      uint32_t handle = free_.back();
      free_.pop_back();
      objects_[handle] = std::move(object);
      return handle;
    }
    objects_.push_back(std::move(object));
    return static_cast<uint32_t>(objects_.size() - 1);
  }

  template <class... Args>
  Result<uint32_t> Emplace(Args&&... args) {
    return Insert(std::make_unique<T>(std::forward<Args>(args)...));
  }

  Result<T*> Get(uint32_t handle) {
    if (handle >= objects_.size() || !objects_[handle]) {
      return Fail(Code::kNotFound, "no {} has handle {}", kind_, handle);
    }
    return objects_[handle].get();
  }

  void Remove(uint32_t handle) {
    if (handle >= objects_.size() || !objects_[handle]) return;
    objects_[handle].reset();
    free_.push_back(handle);
    --size_;
    if (memory_ != nullptr) memory_->Give(bytes_);
    live_->fetch_sub(1, std::memory_order_relaxed);
  }

 private:
  const char* kind_;
  uint32_t limit_;
  std::atomic<int64_t>* live_;
  ByteBudget* const memory_;
  const size_t bytes_;
  uint32_t size_ = 0;
  std::vector<std::unique_ptr<T>> objects_;
  std::vector<uint32_t> free_;
};

}  // namespace pie::host
