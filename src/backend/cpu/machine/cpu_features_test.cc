#include "backend/cpu/machine/cpu_features.h"

#include <gtest/gtest.h>

#include <set>

namespace pie::cpu {
namespace {

TEST(CpuFeatures, LevelsGoFromScalarToTheDetectedOne) {
  const auto levels = SupportedCpuLevels();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), CpuLevel::kScalar);
  EXPECT_EQ(levels.back(), DetectCpuLevel());
}

TEST(CpuFeatures, EveryLevelHasAName) {
  std::set<std::string_view> names;
  for (int level = 0; level <= static_cast<int>(CpuLevel::kAmxBf16); ++level) {
    names.insert(NameOf(static_cast<CpuLevel>(level)));
  }
  EXPECT_EQ(names.size(), 7U);
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace pie::cpu
