// Finds the members of a batch that begin with the same pages, so that attention reads those once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace pie::cpu {

// One sequence of a batch.
struct SharingMember {
  std::span<const PageId> pages;
  uint32_t keys = 0;  // keys at the front that all of its rows see
};

struct SharedPrefix {
  std::vector<uint32_t> members;  // at least two
  uint32_t keys = 0;              // keys in pages that all members share; at least one granule
};

// Puts each member into at most one prefix. Prefixes end at multiples of `granule` keys. If a
// member would shorten a prefix by more than half, it starts another. Costs a sort of the page
// tables.
std::vector<SharedPrefix> FindSharedPrefixes(std::span<const SharingMember> members,
                                             uint32_t page_tokens, uint32_t granule);

}  // namespace pie::cpu
