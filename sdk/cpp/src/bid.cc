#include "bid.h"

#include <algorithm>
#include <utility>

namespace inferlet::detail {

double DefaultBid(const ContextState& context, const Expectation& expected) {
  double steps = std::max<size_t>(64, expected.generated);
  double spread = 1;  // of the number of steps: its squared coefficient of variation
  if (expected.horizon) {
    steps = *expected.horizon > expected.generated ? *expected.horizon - expected.generated : 1;
    spread = 0;
  } else if (expected.max_tokens) {
    steps =
        *expected.max_tokens > expected.generated ? *expected.max_tokens - expected.generated : 1;
  }
  const raw::Model& model = context.model.Inner();
  const double budget =
      pie::core::scheduling::Balance(model) / steps + pie::core::scheduling::Dividend(model);
  const double growth = steps * (1 + spread) / (2.0 * context.page_size);
  return budget / (context.PageCount() + growth);
}

void BidForStep(ContextState& context, const Expectation& expected) {
  if (context.idle_guards > 0) return;
  const uint32_t pages = context.PageCount();
  if (std::exchange(context.bid_by_hand, false)) {
    context.bid_pages = UINT32_MAX;  // the step after this one renews
    return;
  }
  if (context.bid && context.bid_pages == pages) return;
  context.bid = DefaultBid(context, expected);
  context.bid_pages = pages;
  context.raw.Bid(*context.bid);
}

}  // namespace inferlet::detail
