// Mutator: damages files, in the same way for the same seed.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "base/random.h"

namespace pie::fuzz {

// A sequence of random numbers that depends on the seed only.
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
  // An extreme number: near a power of two, near `near`, or any.
  uint64_t Extreme(uint64_t near = 0);

 private:
  CounterRng rng_;
  uint64_t next_ = 0;
};

// Makes a few changes: flips bits, replaces numbers by extreme ones, cuts, repeats and moves parts.
void DamageBytes(std::string& bytes, Dice& dice);

// Makes a few changes: values get another type, become extreme, disappear, or are nested too
// deeply.
void DamageJson(nlohmann::ordered_json& json, Dice& dice);

}  // namespace pie::fuzz
