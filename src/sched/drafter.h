// Drafter: guesses the tokens that a chain chooses next. A guess is only ever a question of time:
// the device verifies it. One owner, the step thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace pie {

class Drafter {
 public:
  virtual ~Drafter() = default;

  // The sequence has got another token.
  virtual void Add(uint32_t token) = 0;
  // The device was asked to verify `drafted` tokens, and chose the first `chosen` of them itself.
  virtual void Judge(uint32_t drafted, uint32_t chosen) = 0;
  // The next tokens, at most `most`, as far as it pays to guess them. Nullopt: they are being
  // guessed. The drafter then tells whoever made it when to ask again.
  virtual std::optional<std::vector<uint32_t>> Draft(uint32_t most) = 0;
  // Nobody waits any longer for the tokens that are being guessed.
  virtual void GiveUp() {}
};

}  // namespace pie
