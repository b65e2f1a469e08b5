#include "sched/auction.h"

#include <algorithm>
#include <functional>
#include <ranges>
#include <unordered_map>
#include <vector>

namespace pie {
namespace {

// The pages of one sequence.
struct Held {
  const Lane* lane = nullptr;
  const Block* tail = nullptr;  // its last full page, which other sequences may share
  uint64_t own_parts = 0;       // of the pages after the full ones
};

Held HeldBy(const Lane& lane, const PagePool& pool) {
  std::vector<Block*> blocks;
  std::vector<PageId> pages;
  lane.kv.CollectHeld(blocks, pages);
  Held held{.lane = &lane, .tail = blocks.front()};
  for (PageId page : pages) held.own_parts += kCredit / pool.refs(page);
  return held;
}

// Divides the cost of shared full pages among the sequences that share them. Each different page is
// paid for once, however many sequences have it.
class Shared {
 public:
  // A sequence ends with this page.
  void Add(const Block* tail) {
    ++Find(tail).sharers;
    for (const Block* b = tail->parent; b != nullptr && b->parent != nullptr; b = b->parent) {
      if (pages_.contains(b)) break;  // then the pages above it are there too
      Find(b);
    }
  }
  void Divide() {
    std::ranges::sort(order_, std::greater<>(), [](const Block* b) { return b->pages; });
    for (const Block* b : order_) {  // the last pages first
      if (b->parent != nullptr) Sharers(b->parent) += pages_.at(b).sharers;
    }
    for (const Block* b : order_ | std::views::reverse) {
      Page& page = pages_.at(b);
      page.parts = PartsOf(b->parent);
      if (b->parent != nullptr) page.parts += kCredit / page.sharers;
    }
  }
  // The part of the cost that a sequence pays for the pages up to and including this one.
  uint64_t PartsOf(const Block* tail) const {
    const auto found = pages_.find(tail);
    return found == pages_.end() ? 0 : found->second.parts;
  }

 private:
  struct Page {
    uint32_t sharers = 0;
    uint64_t parts = 0;
  };
  Page& Find(const Block* block) {
    const auto [place, fresh] = pages_.try_emplace(block);
    if (fresh) order_.push_back(block);
    return place->second;
  }
  uint32_t& Sharers(const Block* block) {
    const auto found = pages_.find(block);
    return found == pages_.end() ? none_ : found->second.sharers;
  }

  std::unordered_map<const Block*, Page> pages_;
  std::vector<const Block*> order_;
  uint32_t none_ = 0;  // for roots, which are no pages
};

}  // namespace

void HoldAuction(LaneTable& lanes, const Memory& memory, const PagePool& pool, uint32_t page_tokens,
                 Market& market) {
  std::vector<Demand> demands;
  std::vector<Market::Holding> holdings;
  std::vector<Held> all;
  Shared shared;
  lanes.ForEach([&](const Lane& lane) {
    uint32_t pages = lane.kv.pages_held();
    const bool waits = lane.phase == Phase::kReady || lane.phase == Phase::kRestoring;
    if (waits) pages += lane.PagesWanted(page_tokens);
    if (pages > 0) demands.push_back({memory.BidOf(lane), pages});
    if (lane.kv.pages_held() == 0) {
      if (pages > 0) holdings.push_back({lane.account, 0});  // its user has a share too
      return;
    }
    all.push_back(HeldBy(lane, pool));
    shared.Add(all.back().tail);
  });
  shared.Divide();
  for (const Held& held : all) {
    holdings.push_back({held.lane->account, held.own_parts + shared.PartsOf(held.tail)});
  }
  market.Tick(ClearingPrice(std::move(demands), pool.pages_total()), holdings);
}

}  // namespace pie
