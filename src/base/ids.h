// Strong ids: the compiler does not accept a page's number where a sequence's is expected.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace pie {

template <class Tag, class Rep>
struct Id {
  Rep value = 0;
  friend auto operator<=>(const Id&, const Id&) = default;
};

using PageId = Id<struct PageTag, uint32_t>;          // a block of KV on one device
using SequenceId = Id<struct SequenceTag, uint64_t>;  // a token sequence that the step thread owns
using InstanceId = Id<struct InstanceTag, uint64_t>;  // one run of a program
using AccountId = Id<struct AccountTag, uint64_t>;    // the payer for pages; 0: pages are free

}  // namespace pie

template <class Tag, class Rep>
struct std::hash<pie::Id<Tag, Rep>> {
  size_t operator()(const pie::Id<Tag, Rep>& id) const { return std::hash<Rep>{}(id.value); }
};
