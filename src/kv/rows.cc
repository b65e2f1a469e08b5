#include "kv/rows.h"

#include <algorithm>
#include <utility>

namespace pie {
namespace {

Brle Causal(uint32_t slot) {
  return {0, slot + 1};
}

Brle Clipped(const Brle& mask, uint32_t slot) {
  BrleBuilder clipped;
  ForEachTrueRun(mask, slot + 1,
                 [&](uint32_t begin, uint32_t end) { clipped.AddTrue(begin, end); });
  return std::move(clipped).Take();
}

}  // namespace

RowsView RowsView::Sub(size_t first, size_t count) const {
  return {.tokens = tokens.subspan(first, count),
          .positions = positions.subspan(first, count),
          .masks = masks.empty() ? masks : masks.subspan(first, count)};
}

void Rows::Append(const RowsView& rows, uint32_t first_slot) {
  const uint32_t before = size();
  tokens.insert(tokens.end(), rows.tokens.begin(), rows.tokens.end());
  positions.insert(positions.end(), rows.positions.begin(), rows.positions.end());
  if (masks.empty() && rows.masks.empty()) return;
  std::vector<Brle> clipped;
  bool hides = false;
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const uint32_t slot = first_slot + i;
    clipped.push_back(rows.masks.empty() ? Causal(slot) : Clipped(rows.masks[i], slot));
    hides |= clipped.back() != Causal(slot);
  }
  if (masks.empty() && !hides) return;
  if (masks.empty()) {
    for (uint32_t i = 0; i < before; ++i) masks.push_back(Causal(first_slot - before + i));
  }
  std::ranges::move(clipped, std::back_inserter(masks));
}

void Rows::Truncate(uint32_t count) {
  if (count >= size()) return;
  tokens.resize(count);
  positions.resize(count);
  if (!masks.empty()) masks.resize(count);
  if (count == 0) masks.clear();
}

void Rows::RemoveFront(uint32_t count) {
  const auto remove = [count](auto& values) {
    values.erase(values.begin(), values.begin() + std::min<std::ptrdiff_t>(count, values.size()));
  };
  remove(tokens);
  remove(positions);
  remove(masks);
}

uint32_t EqualRows(const RowsView& a, const RowsView& b) {
  if (!a.masks.empty() || !b.masks.empty()) return 0;
  const uint32_t most = std::min(a.size(), b.size());
  uint32_t count = 0;
  while (count < most && a.tokens[count] == b.tokens[count] &&
         a.positions[count] == b.positions[count]) {
    ++count;
  }
  return count;
}

bool operator==(const Rows& a, const RowsView& b) {
  return std::ranges::equal(a.tokens, b.tokens) && std::ranges::equal(a.positions, b.positions) &&
         std::ranges::equal(a.masks, b.masks);
}

}  // namespace pie
