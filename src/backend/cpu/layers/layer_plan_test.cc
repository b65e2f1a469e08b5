#include "backend/cpu/layers/layer_plan.h"

#include <gtest/gtest.h>

#include "backend/cpu/testing.h"

namespace pie::cpu {
namespace {

// Returns the plan of a model in tests/golden.
std::string PlanOf(const std::string& name) {
  const auto files = ModelFiles::Open(GoldenModels() / name);
  if (!files) return files.error().text;
  const auto weights = LoadWeights(*files);
  if (!weights) return weights.error().text;
  return Describe(MakePlan(files->config(), *weights));
}

TEST(LayerPlanTest, NormsBefore) {
  EXPECT_EQ(PlanOf("llama"),
            "residual(norm) project attend residual(add, norm) feed-forward "
            "residual(add, norm) project attend residual(add, norm) feed-forward residual(add)");
}

TEST(LayerPlanTest, NormsAfter) {
  EXPECT_EQ(PlanOf("olmo2"),
            "residual() project attend residual(post-norm, add) feed-forward "
            "residual(post-norm, add) project attend residual(post-norm, add) feed-forward "
            "residual(post-norm, add)");
}

TEST(LayerPlanTest, NormsAroundAndTwoKindsOfLayers) {
  EXPECT_EQ(PlanOf("gemma3"),
            "residual(norm) project(sliding) attend(7) residual(post-norm, add, norm) feed-forward "
            "residual(post-norm, add, norm) project attend residual(post-norm, add, norm) "
            "feed-forward "
            "residual(post-norm, add, norm) project(sliding) attend(7) "
            "residual(post-norm, add, norm) feed-forward residual(post-norm, add)");
}

TEST(LayerPlanTest, BiasesAndExperts) {
  EXPECT_EQ(PlanOf("gpt-oss"),
            "residual(norm) project attend(8) residual(bias, add, norm) experts "
            "residual(add, norm) project attend residual(bias, add, norm) experts residual(add)");
}

}  // namespace
}  // namespace pie::cpu
