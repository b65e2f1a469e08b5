// Swap: pages of suspended sequences in memory that the device has not got. Copying a page there
// and back may cost less than computing it again; what both take is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kv/stored_kv.h"

namespace pie {

// What things have been taking. 0 = not known yet.
struct SwapCosts {
  double token_ns = 0;  // to compute one
  double page_ns = 0;   // to copy one, one way
};
// Would it be cheaper to copy these pages out and in than to compute the tokens again? While a cost
// is not known, it is tried.
bool SwapIsCheaper(const SwapCosts& costs, uint32_t tokens, uint32_t pages);

// Follows what is measured, slowly: one odd step does not change a decision.
void Follow(double& average, double measured);

// Pages that may be out, and those that are. Owner: the step thread.
class SwapPool {
 public:
  explicit SwapPool(uint32_t pages) : room_(std::make_shared<uint32_t>(pages)) {}
  uint32_t pages_free() const { return *room_; }
  // Takes pages.size() / page_bytes of the room until the last holder lets go.
  std::shared_ptr<const StoredKv> Keep(Rows rows, std::vector<std::byte> pages, size_t page_bytes);

 private:
  std::shared_ptr<uint32_t> room_;
};

}  // namespace pie
