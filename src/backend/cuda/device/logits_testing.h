// For tests: the logits of a sequence's tokens on a device, and how far they are from others.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace pie::cuda {

using Rows = std::vector<std::vector<float>>;

// Feeds a sequence in chunks, from page `first_page` on, and reads every row.
inline Rows LogitsOf(Backend& device, const std::vector<uint32_t>& tokens, uint32_t chunk = 1000,
                     uint32_t first_page = 0) {
  Rows logits;
  const auto size = static_cast<uint32_t>(tokens.size());
  std::vector<SampleSpec> samples = {
      {.kind = SampleSpec::Kind::kLogits, .rows = std::vector<uint32_t>(size)}};
  std::iota(samples[0].rows.begin(), samples[0].rows.end(), 0U);
  for (uint32_t done = 0; done < size; done += chunk) {
    const uint32_t rows = std::min(chunk, size - done);
    const uint32_t page_tokens = device.info().page_tokens;
    const uint32_t pages = (done + rows + page_tokens - 1) / page_tokens;
    Batch batch;
    for (uint32_t i = 0; i < rows; ++i) {
      batch.tokens.push_back(tokens[done + i]);
      batch.positions.push_back(done + i);
    }
    for (uint32_t i = 0; i < pages; ++i) batch.pages.push_back({first_page + i});
    batch.members = {
        {.rows = rows, .pages = pages, .kv_tokens = done, .pass_row = done, .samples = &samples}};
    const auto ticket = device.Submit(batch);
    EXPECT_TRUE(ticket) << ticket.error().text;
    if (!ticket) return logits;
    auto output = device.Wait(*ticket);
    EXPECT_TRUE(output && output->failures.empty());
    if (!output) return logits;
    for (Slot& slot : output->slots[0]) {
      logits.push_back(std::move(std::get<LogitsSlot>(slot).logits));
    }
  }
  return logits;
}

// ‖a − b‖ / ‖b‖ of each row.
inline std::vector<double> Distances(const Rows& a, const Rows& b) {
  EXPECT_EQ(a.size(), b.size());
  std::vector<double> distances;
  for (size_t row = 0; row < std::min(a.size(), b.size()); ++row) {
    double difference = 0;
    double norm = 0;
    for (size_t i = 0; i < b[row].size(); ++i) {
      difference += std::pow(double{a[row].at(i)} - b[row][i], 2);
      norm += std::pow(double{b[row][i]}, 2);
    }
    distances.push_back(std::sqrt(difference / norm));
  }
  return distances;
}
inline double Distance(const Rows& a, const Rows& b) {
  return std::ranges::max(Distances(a, b));
}
// If two experts are close, a row may go to another one and be far away. The median does not count
// such rows.
inline double MedianDistance(const Rows& a, const Rows& b) {
  std::vector<double> distances = Distances(a, b);
  const auto middle = distances.begin() + static_cast<ptrdiff_t>(distances.size() / 2);
  std::ranges::nth_element(distances, middle);
  return *middle;
}

}  // namespace pie::cuda
