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

  // Draft tokens and their absolute positions. Without positions, the drafts follow the sequence.
  // Empty: no speculation in this step.
  virtual std::pair<std::vector<uint32_t>, std::vector<uint32_t>> Draft() = 0;
  // What was accepted: the drafts that the model chose too, then one token of its own.
  virtual void Accept(std::span<const uint32_t> accepted) = 0;
  // The last `n` drafted tokens were not accepted: the model chose another token, a constraint
  // refuses them, or the generation has ended before them.
  virtual void Rollback(uint32_t n) { (void)n; }
  // Goes back to the initial state. It is called when the generation has ended.
  virtual void Reset() {}
};

}  // namespace inferlet
