// For tests: the logits of a sequence's tokens on a device, and how far they are from others.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/adapter.h"
#include "backend/backend.h"

namespace pie::cuda {

using Rows = std::vector<std::vector<float>>;

// How a sequence uses an adapter.
struct Adapted {
  const DeviceAdapter* adapter = nullptr;
  int64_t seed = 0;
  float sigma = 0;
};

// How ReadAll runs sequences.
struct Reading {
  SampleSpec::Kind kind = SampleSpec::Kind::kLogits;  // or kEmbedding
  uint32_t chunk = 1000;
  const std::vector<Brle>* mask = nullptr;
  std::vector<Adapted> adapted = {};  // of the first sequences
};

// Runs token sequences together, each in chunks, and reads every row. The sequences take pages in
// turn.
inline std::vector<Rows> ReadAll(Backend& device,
                                 const std::vector<std::vector<uint32_t>>& sequences,
                                 const Reading& how = {}) {
  const uint32_t page_tokens = device.info().page_tokens;
  const auto count = static_cast<uint32_t>(sequences.size());
  std::vector<Rows> logits(count);
  std::vector<std::vector<SampleSpec>> samples(count);
  for (uint32_t s = 0; s < count; ++s) {
    samples[s] = {{.kind = how.kind, .rows = std::vector<uint32_t>(sequences[s].size())}};
    std::iota(samples[s][0].rows.begin(), samples[s][0].rows.end(), 0U);
  }
  for (uint32_t done = 0;; done += how.chunk) {
    Batch batch;
    std::vector<uint32_t> of;
    for (uint32_t s = 0; s < count; ++s) {
      const auto size = static_cast<uint32_t>(sequences[s].size());
      if (done >= size) continue;
      const uint32_t rows = std::min(how.chunk, size - done);
      Batch::Member member{.first_row = static_cast<uint32_t>(batch.tokens.size()),
                           .rows = rows,
                           .first_page = static_cast<uint32_t>(batch.pages.size()),
                           .pages = (done + rows + page_tokens - 1) / page_tokens,
                           .kv_tokens = done,
                           .pass_row = done,
                           .attention = how.mask,
                           .samples = &samples[s]};
      if (s < how.adapted.size()) {
        member.adapter = how.adapted[s].adapter;
        member.zo_seed = how.adapted[s].seed;
        member.zo_sigma = how.adapted[s].sigma;
      }
      for (uint32_t i = 0; i < rows; ++i) {
        batch.tokens.push_back(sequences[s][done + i]);
        batch.positions.push_back(done + i);
      }
      for (uint32_t i = 0; i < member.pages; ++i) batch.pages.push_back({i * count + s});
      batch.members.push_back(member);
      of.push_back(s);
    }
    if (batch.members.empty()) return logits;
    const auto ticket = device.Submit(batch);
    EXPECT_TRUE(ticket) << ticket.error().text;
    if (!ticket) return logits;
    auto output = device.Wait(*ticket);
    EXPECT_TRUE(output && output->failures.empty());
    if (!output) return logits;
    for (size_t m = 0; m < of.size(); ++m) {
      for (Slot& slot : output->slots[m]) {
        auto* const row = std::get_if<LogitsSlot>(&slot);
        logits[of[m]].push_back(row != nullptr ? std::move(row->logits)
                                               : std::move(std::get<EmbeddingSlot>(slot).state));
      }
    }
  }
}

// Feeds one sequence in chunks, and reads the logits of every row.
inline Rows LogitsOf(Backend& device, const std::vector<uint32_t>& tokens, uint32_t chunk = 1000) {
  return ReadAll(device, {tokens}, {.chunk = chunk})[0];
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
