#include "cli/memory_plan.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "backend/cpu/testing.h"
#include "cli/start_engine.h"

namespace pie::cli {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kGiB = uint64_t{1} << 30;

struct Capped {
  explicit Capped(const MemoryPlan& plan, const Config& config = {}) : host(config.limits) {
    plan.Cap(config, host);
    plan.Cap(config, compiler);
    plan.Cap(server);
  }
  // The memory that all users together can fill.
  uint64_t sum() const {
    return host.max_linear_bytes + host.max_adapter_memory + host.max_host_bytes +
           host.max_messaging_bytes + host.max_inputs_bytes + server.max_uploads_bytes +
           server.max_buffered_bytes + server.max_code_bytes;
  }

  host::Limits host;
  server::Limits server;
  wasm::CompileLimits compiler;
};

TEST(MemoryPlan, BudgetsAndModelsFitTogetherIntoEveryMachine) {
  for (const uint64_t total : {kGiB / 2, kGiB, 2 * kGiB, 8 * kGiB, 24 * kGiB, 1024 * kGiB}) {
    for (const uint64_t models :
         {uint64_t{0}, MemoryForModels(total) / 2, MemoryForModels(total)}) {
      const auto plan = PlanMemory(total, models);
      ASSERT_TRUE(plan) << plan.error().text;
      const Capped capped(*plan);
      EXPECT_LT(models + capped.sum(), total) << total / kMiB << " MiB";
      EXPECT_GE(capped.host.max_inputs_bytes, capped.host.max_input_bytes);
      EXPECT_GE(capped.host.max_messaging_bytes, capped.host.max_message_bytes);
      EXPECT_LE(capped.server.max_upload_bytes, capped.server.max_uploads_bytes);
      EXPECT_LE(capped.compiler.memory_bytes, total / 2);
      EXPECT_GE(capped.server.max_connections, 1'000U);
    }
  }
}

TEST(MemoryPlan, OnALargeMachineTheUsualLimitsApply) {
  const Capped capped(*PlanMemory(256 * kGiB, 10 * kGiB));
  EXPECT_EQ(capped.host.max_linear_bytes, host::Limits().max_linear_bytes);
  EXPECT_EQ(capped.host.max_host_bytes, host::Limits().max_host_bytes);
  EXPECT_EQ(capped.server.max_uploads_bytes, server::Limits().max_uploads_bytes);
  EXPECT_EQ(capped.server.max_upload_bytes, server::Limits().max_upload_bytes);
  EXPECT_EQ(capped.compiler.memory_bytes, wasm::CompileLimits().memory_bytes);
  EXPECT_EQ(capped.server.max_connections, server::Limits().max_connections);
}

TEST(MemoryPlan, LimitsOfTheConfigAreLeftAlone) {
  Config config;
  config.linear_is_set = config.compile_memory_is_set = true;
  const Capped capped(*PlanMemory(2 * kGiB, 0), config);
  EXPECT_EQ(capped.host.max_linear_bytes, host::Limits().max_linear_bytes);
  EXPECT_EQ(capped.compiler.memory_bytes, wasm::CompileLimits().memory_bytes);
  EXPECT_LT(capped.host.max_adapter_memory, host::Limits().max_adapter_memory);
}

TEST(MemoryPlan, ModelsThatLeaveTooLittleAreRefusedWithTheNumbers) {
  const uint64_t most = MemoryForModels(2 * kGiB);
  EXPECT_TRUE(PlanMemory(2 * kGiB, most));
  const auto plan = PlanMemory(2 * kGiB, most + kMiB);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kExhausted);
  EXPECT_NE(plan.error().text.find("of the 2048 MiB that the engine may use"), std::string::npos)
      << plan.error().text;
  EXPECT_EQ(MemoryForModels(kMiB), 0U);
  EXPECT_FALSE(PlanMemory(kMiB, 0)) << "not even the engine fits";
}

TEST(MemoryPlan, AnEngineTakesItsLimitsFromTheMemoryItMayUse) {
  Config config;
  UseDummy(config);
  config.allow_fs = false;
  config.runtime.max_instances = 4;
  config.memory_bytes = 2 * kGiB;
  MemoryPlan memory;
  const auto engine = StartEngine(config, true, &memory);
  ASSERT_TRUE(engine) << engine.error().text;
  EXPECT_EQ(memory.total, 2 * kGiB);
  EXPECT_GT(memory.models, 0U);
  EXPECT_EQ((*engine)->limits().max_linear_bytes, memory.room / 16 * 7);
  EXPECT_EQ((*engine)->users().totals().linear->limit(), memory.room / 16 * 7);
}

TEST(MemoryPlan, TheEstimateAddsUpTheModelsOfTheConfig) {
  ModelEntry small;
  small.driver = ModelEntry::Driver::kCpu;
  small.weights = (cpu::GoldenModels() / "llama").string();
  small.total_pages = 64;
  ModelEntry large = small;
  large.total_pages = 1 << 20;
  ModelEntry dummy;
  dummy.driver = ModelEntry::Driver::kDummy;
  Config config;
  config.memory_bytes = 64 * kGiB;
  const auto estimate = [&config](std::vector<ModelEntry> models) {
    config.models = std::move(models);
    return EstimateMemory(config);
  };

  const uint64_t one = estimate({small})->models;
  EXPECT_GT(one, 0U);
  EXPECT_EQ(estimate({small, dummy, small})->models, 2 * one);
  // A model may use the memory that the models before it have left.
  config.memory_bytes = 2 * estimate({large})->models;
  EXPECT_TRUE(estimate({large, small}));
  EXPECT_FALSE(estimate({large, large}));
}

TEST(MemoryPlan, KvPagesThatDoNotFitAreRefusedBeforeTheyAreMade) {
  Config config;
  UseDummy(config);
  config.allow_fs = false;
  config.memory_bytes = kGiB;
  config.models[0].total_pages = 1 << 23;
  auto engine = StartEngine(config, true);
  ASSERT_FALSE(engine);
  EXPECT_NE(engine.error().text.find("8388608 KV pages of 16 tokens"), std::string::npos)
      << engine.error().text;
  config.models[0].total_pages = 0;
  config.models[0].scheduler.memory.swap_pages = 1 << 24;
  engine = StartEngine(config, true);
  ASSERT_FALSE(engine);
  EXPECT_NE(engine.error().text.find("swap_pool_size"), std::string::npos) << engine.error().text;
}

}  // namespace
}  // namespace pie::cli
