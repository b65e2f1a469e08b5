// Shared by the tests of the whole CPU backend: sequences, and functions that compute the logits or
// embeddings of all their tokens in batches of any size.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/random.h"

namespace pie::cpu {

using Rows = std::vector<std::vector<float>>;  // logits or embeddings

struct Sequence {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> positions;
  std::vector<Brle> masks = {};  // empty: causal
  std::vector<uint32_t> read;    // rows that are read; all by default
  const DeviceAdapter* adapter = nullptr;
  int64_t zo_seed = 0;
  float zo_sigma = 0;

  explicit Sequence(std::vector<uint32_t> text)
      : tokens(std::move(text)), positions(tokens.size()), read(tokens.size()) {
    std::iota(positions.begin(), positions.end(), 0);
    std::iota(read.begin(), read.end(), 0);
  }
  Sequence(uint32_t length, uint64_t seed, uint32_t vocab)
      : Sequence(std::vector<uint32_t>(length)) {
    for (uint32_t i = 0; i < length; ++i) tokens[i] = Mix(seed, i) % vocab;
  }
};

// Runs sequences together, each in chunks of at most `chunk` tokens. Pages are assigned
// round-robin, so that those of one sequence are scattered. Returns what `kind` (logits or
// embeddings) gives at the rows that are read, one list per sequence.
inline std::vector<Rows> ReadAll(Backend& device, const std::vector<Sequence>& sequences,
                                 uint32_t chunk, SampleSpec::Kind kind) {
  const uint32_t page_tokens = device.info().page_tokens;
  const auto count = static_cast<uint32_t>(sequences.size());
  std::vector<Rows> numbers(count);
  std::vector<std::vector<SampleSpec>> samples(count);
  for (uint32_t s = 0; s < count; ++s) {
    samples[s] = {{.kind = kind, .rows = sequences[s].read}};
  }
  for (uint32_t done = 0;; done += chunk) {
    Batch batch;
    std::vector<uint32_t> of;  // sequence of each member
    for (uint32_t s = 0; s < count; ++s) {
      const Sequence& sequence = sequences[s];
      if (done >= sequence.tokens.size()) continue;
      const uint32_t rows = std::min<uint32_t>(chunk, sequence.tokens.size() - done);
      Batch::Member member{.first_row = static_cast<uint32_t>(batch.tokens.size()),
                           .rows = rows,
                           .first_page = static_cast<uint32_t>(batch.pages.size()),
                           .pages = (done + rows + page_tokens - 1) / page_tokens,
                           .kv_tokens = done,
                           .pass_row = done,
                           .samples = &samples[s],
                           .adapter = sequence.adapter,
                           .zo_seed = sequence.zo_seed,
                           .zo_sigma = sequence.zo_sigma};
      if (!sequence.masks.empty()) member.attention = &sequence.masks;
      for (uint32_t i = 0; i < rows; ++i) {
        batch.tokens.push_back(sequence.tokens[done + i]);
        batch.positions.push_back(sequence.positions[done + i]);
      }
      for (uint32_t i = 0; i < member.pages; ++i) batch.pages.push_back({i * count + s});
      batch.members.push_back(member);
      of.push_back(s);
    }
    if (batch.members.empty()) return numbers;
    const auto ticket = device.Submit(batch);
    EXPECT_TRUE(ticket);
    auto output = device.Wait(*ticket);
    EXPECT_TRUE(output && output->failures.empty());
    for (size_t m = 0; m < of.size(); ++m) {
      for (Slot& slot : output->slots[m]) {
        auto* const embedding = std::get_if<EmbeddingSlot>(&slot);
        numbers[of[m]].push_back(embedding != nullptr
                                     ? std::move(embedding->state)
                                     : std::move(std::get<LogitsSlot>(slot).logits));
      }
    }
  }
}

inline std::vector<Rows> AllLogits(Backend& device, const std::vector<Sequence>& sequences,
                                   uint32_t chunk) {
  return ReadAll(device, sequences, chunk, SampleSpec::Kind::kLogits);
}

inline std::vector<Rows> AllEmbeddings(Backend& device, const std::vector<Sequence>& sequences,
                                       uint32_t chunk) {
  return ReadAll(device, sequences, chunk, SampleSpec::Kind::kEmbedding);
}

}  // namespace pie::cpu
