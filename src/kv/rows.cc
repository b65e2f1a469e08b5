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

// Whether all rows have the same adapter, or none.
bool IsUniform(std::span<const RowAdapter> adapters) {
  return adapters.size() <= 1;
}

}  // namespace

RowsView RowsView::Sub(size_t first, size_t count) const {
  return {.tokens = tokens.subspan(first, count),
          .positions = positions.subspan(first, count),
          .masks = masks.empty() ? masks : masks.subspan(first, count),
          .adapters = IsUniform(adapters) ? adapters : adapters.subspan(first, count)};
}

void Rows::AppendAdapters(const RowsView& rows, uint32_t before) {
  if ((adapters.empty() && rows.adapters.empty()) || rows.size() == 0) return;
  const bool same = IsUniform(adapters) && IsUniform(rows.adapters) &&
                    (before == 0 || view().adapter(0) == rows.adapter(0));
  if (same) {
    if (before == 0) adapters.assign(rows.adapters.begin(), rows.adapters.end());
    return;
  }
  if (IsUniform(adapters)) {
    const RowAdapter all = view().adapter(0);
    adapters.assign(before, all);
  }
  for (uint32_t i = 0; i < rows.size(); ++i) adapters.push_back(rows.adapter(i));
}

void Rows::Append(const RowsView& rows, uint32_t first_slot) {
  const uint32_t before = size();
  AppendAdapters(rows, before);
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
  if (adapters.size() > 1) adapters.resize(count);
  if (count == 0) {
    masks.clear();
    adapters.clear();
  }
}

void Rows::RemoveFront(uint32_t count) {
  const auto remove = [count](auto& values) {
    values.erase(values.begin(), values.begin() + std::min<std::ptrdiff_t>(count, values.size()));
  };
  remove(tokens);
  remove(positions);
  remove(masks);
  if (adapters.size() > 1 || tokens.empty()) remove(adapters);
}

uint32_t EqualRows(const RowsView& a, const RowsView& b) {
  if (!a.masks.empty() || !b.masks.empty()) return 0;
  const uint32_t most = std::min(a.size(), b.size());
  uint32_t count = 0;
  while (count < most && a.tokens[count] == b.tokens[count] &&
         a.positions[count] == b.positions[count] && a.adapter(count) == b.adapter(count)) {
    ++count;
  }
  return count;
}

bool operator==(const Rows& a, const RowsView& b) {
  if (!std::ranges::equal(a.tokens, b.tokens) || !std::ranges::equal(a.positions, b.positions) ||
      !std::ranges::equal(a.masks, b.masks)) {
    return false;
  }
  if (a.adapters.empty() && b.adapters.empty()) return true;
  for (uint32_t i = 0; i < a.size(); ++i) {
    if (a.view().adapter(i) != b.adapter(i)) return false;
  }
  return true;
}

size_t MaskBytes(const Rows& rows) {
  size_t bytes = 0;
  for (const Brle& mask : rows.masks) bytes += sizeof(Brle) + mask.size() * sizeof(uint32_t);
  return bytes;
}

}  // namespace pie
