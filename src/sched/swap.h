// Swap: pages of suspended sequences in host memory. Copying a page there and back may cost less
// than computing it again; both costs are measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "kv/stored_kv.h"

namespace pie {

// Measured costs. 0 = not known yet.
struct SwapCosts {
  double token_ns = 0;  // to compute one token
  double page_ns = 0;   // to copy one page, one way
};
// Is it cheaper to copy these pages out and in than to compute the tokens again? While a cost is
// not known, the answer is yes, so that it is measured.
bool SwapIsCheaper(const SwapCosts& costs, uint32_t tokens, uint32_t pages);

// Moves an average towards what was measured, slowly: one odd step does not change a decision.
void Smooth(double& average, double measured);

// Counts the pages that may be in host memory, and those that are. Owner: the step thread.
class SwapPool {
 public:
  explicit SwapPool(uint32_t pages) : room_(std::make_shared<uint32_t>(pages)) {}
  uint32_t pages_free() const { return *room_; }
  // Takes the pages' part of the room, until the last reference to the result is gone.
  std::shared_ptr<const StoredKv> Keep(Rows rows, PageContentsPtr pages);

 private:
  std::shared_ptr<uint32_t> room_;
};

}  // namespace pie
