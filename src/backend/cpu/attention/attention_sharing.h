// Which members of a batch begin with the same pages: what attention reads once for all of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace pie::cpu {

// One sequence of a batch.
struct SharingMember {
  std::span<const PageId> pages;
  uint32_t keys = 0;  // that all of its rows may see, from the first on
};

struct SharedPrefix {
  std::vector<uint32_t> members;  // at least two
  uint32_t keys = 0;              // that all of them have in the same pages; at least one granule
};

// Every member is in at most one prefix, and prefixes end at multiples of `granule` keys. Where
// some share more than others, those that share much are kept together. Cost: sorting the page
// tables.
std::vector<SharedPrefix> FindSharedPrefixes(std::span<const SharingMember> members,
                                             uint32_t page_tokens, uint32_t granule);

}  // namespace pie::cpu
