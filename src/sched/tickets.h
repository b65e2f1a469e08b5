// Tickets: numbers the operations in the order in which they were requested, and signals a fence
// when every operation before it has ended.
//
// Owner: the step thread. Taking a ticket is O(1); giving one back is O(fences that wait).
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sched/command.h"

namespace pie {

class Tickets {
 public:
  // Returns the ticket of a new operation.
  uint64_t Take() {
    ++open_;
    return next_++;
  }
  // A place after all tickets, for an operation that goes on and keeps its ticket.
  uint64_t TakePlace() { return next_++; }
  // The operation with this ticket has ended.
  void GiveBack(uint64_t ticket) {
    --open_;
    for (Pending& fence : fences_) {
      if (ticket < fence.ticket) --fence.left;
    }
  }

  // Makes the fence wait for every operation whose ticket was taken before.
  void Await(std::shared_ptr<Fence> fence) { fences_.push_back({std::move(fence), next_, open_}); }
  // Signals the fences that wait for no operation any more.
  void SignalFences() {
    std::erase_if(fences_, [](const Pending& pending) {
      if (pending.left > 0) return false;
      pending.fence->Signal();
      return true;
    });
  }

 private:
  struct Pending {
    std::shared_ptr<Fence> fence;
    uint64_t ticket = 0;  // the first ticket that was not taken yet
    uint64_t left = 0;    // operations before the fence that have not ended
  };

  std::vector<Pending> fences_;
  uint64_t next_ = 0;
  uint64_t open_ = 0;
};

}  // namespace pie
