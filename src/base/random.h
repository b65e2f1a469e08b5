// Counter-based random numbers: a value is a pure function of (seed, counter), so a choice does not
// depend on what else ran, in which order or on which thread. Not for secrets.
#pragma once

#include <cstdint>

namespace pie {

// SplitMix64's finaliser: a bijection in which every input bit reaches every output bit.
constexpr uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// Order matters: Mix(a, b) is not Mix(b, a).
template <class... Rest>
constexpr uint64_t Mix(uint64_t first, uint64_t second, Rest... rest) {
  return Mix(Mix(first) ^ second, static_cast<uint64_t>(rest)...);
}

struct CounterRng {
  uint64_t seed = 0;

  constexpr uint64_t Bits(uint64_t counter) const { return Mix(seed, counter); }
  // Uniform in [0, 1): 24 bits as a float, 53 as a double.
  constexpr float Float(uint64_t counter) const {
    return static_cast<float>(Bits(counter) >> 40) * 0x1p-24F;
  }
  constexpr double Double(uint64_t counter) const {
    return static_cast<double>(Bits(counter) >> 11) * 0x1p-53;
  }
};

}  // namespace pie
