// One tick of the market: what the lanes hold and want, turned into a price, rent and dividends.
// Owner: the step thread. O(pages held), so it is for moments in which memory is short.
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
