// SuffixDrafter: guesses that the text goes on as it went on before. It looks for the last earlier
// occurrence of the newest tokens, in the sequence itself or in recent outputs of the same user's
// chains, and proposes the tokens that followed there. Text that quotes, edits or repeats is
// guessed well.
//
// How many tokens it proposes depends on what they cost and how many of its guesses were right.
// What follows many equal tokens is more often right than what follows a few, so the two are
// counted apart. Where guesses do not pay, it makes one now and then to see whether that has
// changed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "sched/draft_pace.h"
#include "sched/drafter.h"

namespace pie {

// Tokens, and the places where the newest of them stood before.
class SuffixIndex {
 public:
  // The minimum number of equal tokens in a row before anything is guessed.
  static constexpr size_t kGram = 3;

  void Add(uint32_t token);
  size_t size() const { return tokens_.size(); }
  std::span<const uint32_t> tokens() const { return tokens_; }
  // Finds the place whose preceding tokens match the end of `text` for the longest run, and returns
  // the tokens that follow it: at most `most`, and at most one more than the number of equal tokens
  // beyond kGram. `text` may be this index's own. Its end is then not a match, and if too few
  // tokens follow a match near the end, the text is taken to repeat from there on.
  std::vector<uint32_t> After(std::span<const uint32_t> text, uint32_t most) const;

 private:
  uint32_t& HeadOf(const uint32_t* gram);
  void Grow();
  std::vector<uint32_t> tokens_;
  std::vector<uint32_t> heads_;   // by hash of a gram: the end of its last occurrence; 0 = none
  std::vector<uint32_t> before_;  // by the end of a gram: the end of its previous occurrence
};

// The last tokens that the chains of one user gave. Any thread.
class RecentTokens {
 public:
  static constexpr size_t kTokens = 16'384;  // after this many tokens, a new index begins

  void Add(std::span<const uint32_t> tokens);
  std::vector<uint32_t> After(std::span<const uint32_t> text, uint32_t most) const;

 private:
  mutable std::mutex mutex_;
  SuffixIndex newest_, older_;
};

class SuffixDrafter final : public Drafter {
 public:
  // How many of the last tokens of a sequence a drafter should look at, for a chain that chooses at
  // most `left` more tokens. Reading them takes time in proportion, on the step thread: a chain
  // that ends soon, or a single pass, which has a drafter of its own, is not worth a long look.
  static constexpr uint32_t kMostTokens = 8'192;
  static uint32_t Window(uint32_t left) {
    constexpr uint32_t kTokensForEach = 128;
    return left < kMostTokens / kTokensForEach ? left * kTokensForEach : kMostTokens;
  }

  // `text` is what the sequence holds and will be fed first; `recent` may be null.
  SuffixDrafter(std::span<const uint32_t> text, std::shared_ptr<RecentTokens> recent,
                const StepTime& time);
  ~SuffixDrafter() override;

  void Add(uint32_t token) override;
  void Judge(uint32_t drafted, uint32_t chosen) override;
  std::optional<std::vector<uint32_t>> Draft(uint32_t most) override;

 private:
  SuffixIndex text_;
  std::shared_ptr<RecentTokens> recent_;
  DraftPace after_few_, after_many_;  // equal tokens
  DraftPace* asked_ = &after_few_;    // for the last draft
  std::vector<uint32_t> given_;       // by the chain
};

}  // namespace pie
