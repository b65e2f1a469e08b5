// What a generation bids for its pages.
#pragma once

#include <cstddef>
#include <optional>

#include "pass.h"

namespace inferlet::detail {

// How long a generation will be, as far as one knows.
struct Expectation {
  std::optional<size_t> horizon;
  std::optional<size_t> max_tokens;
  size_t generated = 0;
};

// What a page is worth to this context: the credits that each step ahead may spend, over the pages
// that it will hold on average.
double DefaultBid(const ContextState& context, const Expectation& expected);

// Places the default bid before a pass, unless a bid by hand (which holds for one pass) or an Idle
// guard is in force. It is renewed when the number of pages changes, as then its cost does.
void BidForStep(ContextState& context, const Expectation& expected);

}  // namespace inferlet::detail
