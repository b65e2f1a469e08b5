#include "backend/cpu/attention/attention_sharing.h"

#include <algorithm>
#include <cstddef>

namespace pie::cpu {
namespace {

// Number of keys that two members have in the same pages.
uint32_t SharedKeys(const SharingMember& a, const SharingMember& b, uint32_t page_tokens) {
  const size_t most = std::min(a.pages.size(), b.pages.size());
  size_t pages = 0;
  while (pages < most && a.pages[pages] == b.pages[pages]) ++pages;
  const uint64_t keys = uint64_t{pages} * page_tokens;
  return static_cast<uint32_t>(std::min<uint64_t>(keys, std::min(a.keys, b.keys)));
}

}  // namespace

std::vector<SharedPrefix> FindSharedPrefixes(std::span<const SharingMember> members,
                                             uint32_t page_tokens, uint32_t granule) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < members.size(); ++i) {
    if (members[i].keys >= granule) order.push_back(i);
  }
  // In this order, the member with the longest shared prefix is always a neighbour.
  std::ranges::sort(order, [&](uint32_t a, uint32_t b) {
    const auto [x, y] = std::ranges::mismatch(members[a].pages, members[b].pages);
    if (x == members[a].pages.end() || y == members[b].pages.end()) {
      return members[a].pages.size() != members[b].pages.size()
                 ? members[a].pages.size() < members[b].pages.size()
                 : a < b;
    }
    return x->value < y->value;
  });
  std::vector<SharedPrefix> prefixes;
  SharedPrefix open;
  const auto close = [&] {
    if (open.members.size() > 1) prefixes.push_back(open);
    open = {};
  };
  for (uint32_t member : order) {
    uint32_t keys = 0;
    if (!open.members.empty()) {
      keys = SharedKeys(members[open.members.back()], members[member], page_tokens);
      keys = keys / granule * granule;
      // A member that would shorten the prefix by more than half starts a new one.
      if (keys == 0 || (open.members.size() > 1 && keys < open.keys / 2)) close();
    }
    if (open.members.empty()) {
      open = {{member}, ~0U};
    } else {
      open.members.push_back(member);
      open.keys = std::min(open.keys, keys);
    }
  }
  close();
  return prefixes;
}

}  // namespace pie::cpu
