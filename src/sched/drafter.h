// Drafter: guesses the tokens that a chain chooses next. The device verifies every guess, so a
// wrong one costs time and changes no token. One owner, the step thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pie {

class Drafter {
 public:
  virtual ~Drafter() = default;

  // A token was appended to the sequence.
  virtual void Add(uint32_t token) = 0;
  // The device verified `drafted` tokens, and chose the first `chosen` of them itself.
  virtual void Judge(uint32_t drafted, uint32_t chosen) = 0;
  // Returns the next tokens, at most `most`, as far as guessing them pays. Returns nullopt while
  // they are being guessed; the drafter then reports when to ask again.
  virtual std::optional<std::vector<uint32_t>> Draft(uint32_t most) = 0;
  // The chain goes on without the tokens that are being guessed.
  virtual void GiveUp() {}
};

}  // namespace pie
