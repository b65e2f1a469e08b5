// Shared by the tests of the CPU backend.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "backend/cpu/machine/cpu_features.h"
#include "base/random.h"

namespace pie::cpu {

// Returns the folder of the tiny models that tests/golden/make_models.py wrote.
inline std::filesystem::path GoldenModels() {
  return std::filesystem::path(__FILE__).parent_path() / "../../../tests/golden/models";
}

// Returns numbers that are uniform in [-range, range).
inline std::vector<float> RandomFloats(size_t count, uint64_t seed, float range = 1) {
  std::vector<float> x(count);
  const CounterRng rng{seed};
  for (size_t i = 0; i < count; ++i) x[i] = (rng.Float(i) * 2 - 1) * range;
  return x;
}

// A test suite that runs at every level that this machine supports.
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
