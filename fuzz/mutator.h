// Mutator: spoils files, the same way for the same seed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/random.h"

namespace pie::fuzz {

// Random numbers in a row, of one seed.
class Dice {
 public:
  explicit Dice(uint64_t seed) : rng_{seed} {}

  uint64_t Bits() { return rng_.Bits(next_++); }
  uint64_t Below(uint64_t end) { return end == 0 ? 0 : Bits() % end; }
  bool Once(uint64_t in) { return Below(in) == 0; }
  template <class T>
  const T& Of(std::span<const T> choices) {
    return choices[Below(choices.size())];
  }
  template <class T, size_t kSize>
  const T& Of(const T (&choices)[kSize]) {
    return choices[Below(kSize)];
  }
  // A number that programs trip over: around powers of two, around `near`, or any.
  uint64_t Absurd(uint64_t near = 0);

 private:
  CounterRng rng_;
  uint64_t next_ = 0;
};

// A few changes to bytes: flips, numbers in the file that become absurd, cuts, repeats, moves.
void SpoilBytes(std::string& bytes, Dice& dice);

// A few changes to values: of another kind, absurd, gone, nested too deeply.
void SpoilJson(nlohmann::ordered_json& json, Dice& dice);

}  // namespace pie::fuzz
