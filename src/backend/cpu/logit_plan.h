// Decides which logits of a batch are computed. A row usually needs the logits of all tokens. A row
// under a grammar that allows few tokens needs only theirs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/batch.h"
#include "backend/cpu/machine/thread_pool.h"

namespace pie::cpu {

class LogitPlan {
 public:
  explicit LogitPlan(uint32_t vocab_size) : words_of_vocabulary_((vocab_size + 31) / 32) {}

  // Plans the rows `read` (of the batch, ascending), whose logits its members read. Waits until the
  // masks of the members are made.
  void Make(const Batch& batch, std::span<const uint32_t> read, ThreadPool& pool);

  // The rows of which all logits are computed.
  std::span<const uint32_t> whole() const { return std::span(rows_).first(whole_); }
  // The rows of which only the logits of words() are computed.
  std::span<const uint32_t> narrow() const { return std::span(rows_).subspan(whole_); }
  // Numbers of words of a mask, ascending. A word stands for 32 tokens.
  std::span<const uint32_t> words() const { return words_; }

 private:
  struct Member {
    std::span<const uint32_t> rows;    // of the batch
    std::vector<uint32_t> words = {};  // that allow a token
    bool is_narrow = false;
  };

  void SplitRows(const Batch& batch, std::span<const uint32_t> read);
  void CollectWords(const Batch::Member& member, Member& own) const;
  void ChooseNarrow(size_t rows);

  const size_t words_of_vocabulary_;
  std::vector<Member> members_;  // of the batch
  std::vector<uint32_t> rows_;   // whole rows first
  size_t whole_ = 0;
  std::vector<uint32_t> words_;
};

}  // namespace pie::cpu
