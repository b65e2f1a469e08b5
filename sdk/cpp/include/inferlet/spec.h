// Speculator: guesses the next tokens, so that one pass can confirm several.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace inferlet {

class Speculator {
 public:
  virtual ~Speculator() = default;

  // Draft tokens and their absolute positions. Empty: no speculation in this step.
  virtual std::pair<std::vector<uint32_t>, std::vector<uint32_t>> Draft() = 0;
  // What was accepted: the model's own next token first, or the drafts that it confirmed and the
  // token after them.
  virtual void Accept(std::span<const uint32_t> accepted) = 0;
  // The last `n` drafted tokens were wrong.
  virtual void Rollback(uint32_t n) { (void)n; }
  virtual void Reset() {}
};

}  // namespace inferlet
