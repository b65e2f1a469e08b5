// One tick of the market: turns the pages that lanes hold and want into a price, rents and
// dividends. Owner: the step thread. O(pages held), so it runs only while memory is short.
#pragma once

#include <cstdint>

#include "kv/page_pool.h"
#include "sched/lane_table.h"
#include "sched/market.h"
#include "sched/memory.h"

namespace pie {

void HoldAuction(LaneTable& lanes, const Memory& memory, const PagePool& pool, uint32_t page_tokens,
                 Market& market);

}  // namespace pie
