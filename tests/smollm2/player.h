// Player: runs token sequences on a device, without a scheduler. The test chooses page tables,
// chunks and forks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace pie {

class Player {
 public:
  using Tokens = std::vector<uint32_t>;
  using Logits = std::vector<float>;

  struct Sequence {
    std::vector<PageId> pages = {};
    uint32_t tokens = 0;
  };
  struct Input {  // tokens that a sequence gets in one step
    Sequence* sequence;
    std::span<const uint32_t> tokens;
  };

  explicit Player(Backend& device) : device_(device) {}

  // Runs one step over all inputs. Returns the logits of the last token of each.
  std::vector<Logits> Step(const std::vector<Input>& inputs) {
    Batch batch;
    batch.copies = std::exchange(copies_, {});
    std::vector<std::vector<SampleSpec>> samples(inputs.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto& [sequence, tokens] = inputs[i];
      const auto rows = static_cast<uint32_t>(tokens.size());
      samples[i] = {{.kind = SampleSpec::Kind::kLogits, .rows = {rows - 1}}};
      Reserve(*sequence, sequence->tokens + rows);
      batch.members.push_back({.first_row = static_cast<uint32_t>(batch.tokens.size()),
                               .rows = rows,
                               .first_page = static_cast<uint32_t>(batch.pages.size()),
                               .pages = static_cast<uint32_t>(sequence->pages.size()),
                               .kv_tokens = sequence->tokens,
                               .samples = &samples[i]});
      for (uint32_t row = 0; row < rows; ++row) {
        batch.tokens.push_back(tokens[row]);
        batch.positions.push_back(sequence->tokens + row);
      }
      batch.pages.insert(batch.pages.end(), sequence->pages.begin(), sequence->pages.end());
      sequence->tokens += rows;
    }
    return Run(batch);
  }

  // Feeds a sequence in chunks; gives the logits of its last token.
  Logits Feed(Sequence& sequence, std::span<const uint32_t> tokens, uint32_t chunk) {
    std::vector<Logits> logits;
    for (size_t at = 0; at < tokens.size(); at += chunk) {
      logits = Step({{&sequence, tokens.subspan(at, std::min<size_t>(chunk, tokens.size() - at))}});
    }
    return std::move(logits.at(0));
  }

  // A sequence that shares the full pages of another and has a copy of its last, partial one.
  Sequence Fork(const Sequence& from) {
    Sequence fork = from;
    if (from.tokens % device_.info().page_tokens != 0) {
      fork.pages.back() = NewPage();
      copies_.push_back({from.pages.back(), fork.pages.back()});
    }
    return fork;
  }

 private:
  void Reserve(Sequence& sequence, uint32_t tokens) {
    const uint32_t page_tokens = device_.info().page_tokens;
    while (sequence.pages.size() * page_tokens < tokens) sequence.pages.push_back(NewPage());
  }

  PageId NewPage() {
    EXPECT_LT(next_page_, device_.info().total_pages);
    return {next_page_++};
  }

  std::vector<Logits> Run(const Batch& batch) {
    const auto ticket = device_.Submit(batch);
    EXPECT_TRUE(ticket) << ticket.error().text;
    auto output = device_.Wait(*ticket);
    EXPECT_TRUE(output && output->failures.empty());
    std::vector<Logits> logits;
    for (auto& slots : output->slots) {
      logits.push_back(std::move(std::get<LogitsSlot>(slots.at(0)).logits));
    }
    return logits;
  }

  Backend& device_;
  uint32_t next_page_ = 0;
  std::vector<PageCopy> copies_;  // before the next step
};

}  // namespace pie
