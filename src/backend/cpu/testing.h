// What the tests of the kernels share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cpu/machine/cpu_features.h"
#include "base/random.h"

namespace pie::cpu {

// Uniform in [-range, range).
inline std::vector<float> RandomFloats(size_t count, uint64_t seed, float range = 1) {
  std::vector<float> x(count);
  const CounterRng rng{seed};
  for (size_t i = 0; i < count; ++i) x[i] = (rng.Float(i) * 2 - 1) * range;
  return x;
}

// A test suite that runs at every level of this machine.
class AtLevel : public testing::TestWithParam<CpuLevel> {};

inline std::string LevelName(const testing::TestParamInfo<CpuLevel>& param) {
  std::string name(NameOf(param.param));
  std::erase(name, '-');
  return name;
}

}  // namespace pie::cpu

#define PIE_TEST_AT_ALL_LEVELS(suite)                                                          \
  INSTANTIATE_TEST_SUITE_P(Levels, suite, testing::ValuesIn(::pie::cpu::SupportedCpuLevels()), \
                           ::pie::cpu::LevelName)
