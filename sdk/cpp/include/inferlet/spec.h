// Speculator: guesses the next tokens, so that one pass can confirm several.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace inferlet {

// A drafter of your own, for Generator::Speculator.
class Speculator {
 public:
  virtual ~Speculator() = default;

  // Returns draft tokens and their absolute positions. Without positions, the drafts follow the
  // sequence. Without tokens, the step has no drafts.
  virtual std::pair<std::vector<uint32_t>, std::vector<uint32_t>> Draft() = 0;
  // Called with the accepted tokens: the drafts that the model chose too, then one token of its
  // own.
  virtual void Accept(std::span<const uint32_t> accepted) = 0;
  // Called if the last `n` drafted tokens were not accepted: the model chose another token, a
  // constraint refused them, or the generation ended before them.
  virtual void Rollback(uint32_t n) { (void)n; }
  // Goes back to the initial state. Called when the generation has ended.
  virtual void Reset() {}
};

}  // namespace inferlet
