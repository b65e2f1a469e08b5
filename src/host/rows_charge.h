// RowsCharge: the charge for the rows (tokens and positions) that the engine keeps for a context as
// long as the context lives, even while it has no pages on the device.
//
// Forks share the charge for their common rows, as they share the memory: a fork costs nothing
// until it grows. Rows that a context has shared stay charged until all contexts that have them are
// gone, even if some of those contexts are truncated. One thread at a time may use an object; forks
// may be used by other threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "host/byte_budget.h"

namespace pie::host {

class RowsCharge {
 public:
  // The first `paid` pages are charged elsewhere.
  RowsCharge(size_t page_bytes, uint32_t paid) : page_bytes_(page_bytes), first_(paid) {}
  RowsCharge(RowsCharge&&) = default;
  RowsCharge& operator=(RowsCharge&&) = default;

  // From now on, charges the budget of `payer`, which is an empty charge, for all further pages.
  void PayFrom(Charge payer);
  // Charges for the first `pages`. Returns false and charges nothing if there is no room for them.
  bool Cover(uint32_t pages);
  // Ends the charge for the pages after the first `pages`, except for pages that a fork shares.
  void Cut(uint32_t pages);
  // O(kMostShared). Changes this object too: its pages are shared from now on.
  RowsCharge Fork();
  void Release();

 private:
  // Pages that are shared, from the beginning of the context or from where the piece before ends.
  struct Piece {
    Charge charge;
    uint32_t first = 0;
  };
  // A context that is forked again and again has as many pieces as it has ancestors. At this number
  // of pieces, it pays for all of its pages anew.
  static constexpr size_t kMostShared = 32;
  void Share();

  size_t page_bytes_;
  uint32_t first_;  // the first of the pages that `own_` pays for
  Charge own_;
  std::vector<std::shared_ptr<const Piece>> shared_;  // in order
};

}  // namespace pie::host
