#include "sched/auction.h"

#include <unordered_map>
#include <vector>

namespace pie {
namespace {

// The pages of one sequence.
struct Held {
  const Lane* lane = nullptr;
  const Block* tail = nullptr;  // the last of its full pages, which others may have too
  uint64_t own_parts = 0;       // of the pages behind them
};

Held HeldBy(const Lane& lane, const PagePool& pool) {
  std::vector<Block*> blocks;
  std::vector<PageId> pages;
  lane.kv.CollectHeld(blocks, pages);
  Held held{.lane = &lane, .tail = blocks.front()};
  for (PageId page : pages) held.own_parts += kCredit / pool.refs(page);
  return held;
}

}  // namespace

void HoldAuction(LaneTable& lanes, const Memory& memory, const PagePool& pool, uint32_t page_tokens,
                 Market& market) {
  std::vector<Demand> demands;
  std::vector<Held> all;
  std::unordered_map<const Block*, uint32_t> sharers;
  lanes.ForEach([&](const Lane& lane) {
    uint32_t pages = lane.kv.pages_held();
    const bool waits = lane.phase == Phase::kReady || lane.phase == Phase::kRestoring;
    if (waits) pages += lane.PagesWanted(page_tokens);
    if (pages > 0) demands.push_back({memory.BidOf(lane), pages});
    if (lane.kv.pages_held() == 0) return;
    all.push_back(HeldBy(lane, pool));
    for (const Block* b = all.back().tail; b->parent != nullptr; b = b->parent) ++sharers[b];
  });
  std::vector<Market::Holding> holdings;
  for (const Held& held : all) {
    uint64_t parts = held.own_parts;
    for (const Block* b = held.tail; b->parent != nullptr; b = b->parent) {
      parts += kCredit / sharers.at(b);
    }
    holdings.push_back({held.lane->account, parts});
  }
  market.Tick(ClearingPrice(std::move(demands), pool.pages_total()), holdings);
}

}  // namespace pie
