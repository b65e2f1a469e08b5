// Host calls as the bridge makes them, on a process that no guest runs: what a component can hardly
// bring about (a pass whose context goes away, limits at their edge).
#include "host/api.h"

#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <thread>

#include "backend/dummy/dummy_backend.h"
#include "host/host_table.h"
#include "sched/testing.h"

namespace pie::host {
namespace {

TEST(HostTable, HasEveryFunction) {
  const pie_bridge::HostTable& table = HostFunctions();
  using Pointers = std::array<uintptr_t, sizeof(table) / sizeof(uintptr_t)>;
  for (uintptr_t function : std::bit_cast<Pointers>(table)) EXPECT_NE(function, 0u);
}

class ApiTest : public ::testing::Test {
 protected:
  ApiTest() {
    EngineOptions options;
    auto backend = std::make_unique<testing::GatedBackend>(DummyOptions{.page_tokens = 4}, gate_);
    options.models.push_back({MakeDummyModel("default"),
                              std::make_unique<Scheduler>(std::move(backend), SchedulerOptions{})});
    options.runtime.max_instances = 1;
    options.limits.max_pass_bytes = 1 << 20;
    options.limits.max_pass_tokens = 1'000;
    engine_ = *Engine::Start(std::move(options));
    process_ = std::make_shared<Process>(engine_.get(), InstanceId{1}, Process::Options{});
    Ok(ModelLoad(guest(), ToStr("default"), &model_, out_));
    Ok(ContextCreate(guest(), model_, &context_, out_));
    Ok(ContextReserveWorkingPages(guest(), context_, 4, out_));
  }
  ~ApiTest() override {
    gate_->Open();
    process_->OnExit({});
    process_.reset();
    EXPECT_TRUE(engine_->WaitIdle(5000));
    const EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.handles, 0);
    EXPECT_EQ(stats.sequences, 0u);
    pie_bridge::pie_out_free(out_);
  }

  void* guest() { return static_cast<wasm::Guest*>(process_.get()); }
  std::string text() const { return std::string(View(pie_bridge::pie_out_read(out_))); }
  void Ok(bool answer) { EXPECT_TRUE(answer) << text(); }

  uint32_t NewPass(std::vector<uint32_t> tokens = {'a'}) {
    uint32_t pass = 0;
    Ok(PassNew(guest(), model_, &pass, out_));
    Ok(PassContext(guest(), pass, context_, out_));
    const std::vector<uint32_t> positions(tokens.size());
    Ok(Input(pass, tokens, positions));
    return pass;
  }
  bool Input(uint32_t pass, const std::vector<uint32_t>& tokens,
             const std::vector<uint32_t>& positions) {
    return PassInputTokens(guest(), pass, {tokens.data(), tokens.size()},
                           {positions.data(), positions.size()}, out_);
  }
  void Sample(uint32_t pass, pie_bridge::SamplerKind kind, uint32_t count = 1,
              std::vector<uint32_t> rows = {0}) {
    pie_bridge::Sampler sampler{.kind = kind, .temperature = 0, .count = count, .p = 1};
    Ok(PassSampler(guest(), pass, {rows.data(), rows.size()}, &sampler, out_));
  }
  bool Ready(uint32_t future) {
    bool ready = false;
    Ok(OutputGet(guest(), future, &ready, out_));
    return ready;
  }
  bool BecomesReady(uint32_t future) {
    for (int i = 0; i < 10'000; ++i) {
      if (Ready(future)) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  std::shared_ptr<testing::Gate> gate_ = std::make_shared<testing::Gate>();
  std::unique_ptr<Engine> engine_;
  std::shared_ptr<Process> process_;
  Out* out_ = pie_bridge::pie_out_new();
  uint32_t model_ = 0, context_ = 0;
};

TEST_F(ApiTest, ResultIsGivenOnce) {
  const uint32_t pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::TopK);
  uint32_t future = 0;
  Ok(PassExecute(guest(), pass, &future, out_));
  EXPECT_TRUE(BecomesReady(future));
  EXPECT_FALSE(Ready(future));
  bool failed = true;
  Ok(OutputFailure(guest(), future, &failed, out_));
  EXPECT_FALSE(failed);
}

// Otherwise the guest would wait for ever.
TEST_F(ApiTest, PassWhoseContextIsDestroyedFails) {
  gate_->Hold();
  uint32_t first = 0, second = 0;
  Ok(PassExecute(guest(), NewPass(), &first, out_));
  ASSERT_TRUE(gate_->WaitBusy());
  Ok(PassExecute(guest(), NewPass(), &second, out_));
  Ok(ContextDestroy(guest(), context_, out_));
  gate_->Open();
  EXPECT_TRUE(BecomesReady(second));
  bool failed = false;
  Ok(OutputFailure(guest(), second, &failed, out_));
  EXPECT_TRUE(failed);
  EXPECT_EQ(text(), "the context was destroyed before this pass had run");
}

// A pass that makes no sense is refused before it can cost the context.
TEST_F(ApiTest, FaultyPassLeavesItsContextWhole) {
  uint32_t future = 0;
  uint32_t pass = NewPass();
  const uint32_t nothing[] = {262};  // a mask that allows no token of the 262
  Ok(PassLogitMask(guest(), pass, {nothing, 1}, out_));
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_EQ(text(), "the logit mask allows no token: allow at least one");

  EXPECT_FALSE(PassExecute(guest(), NewPass({999}), &future, out_));
  EXPECT_EQ(text(), "token 999 is not in the vocabulary of 262");

  pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::TopK, 1, {1});
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_EQ(text(), "row 1 is sampled, but there are 1 input tokens");

  Ok(PassExecute(guest(), NewPass(), &future, out_));
  EXPECT_TRUE(engine_->models()[0].scheduler->WaitIdle(5000));
  bool failed = true;
  Ok(OutputFailure(guest(), future, &failed, out_));
  EXPECT_FALSE(failed) << text();
}

TEST_F(ApiTest, PassIsExecutedOnce) {
  const uint32_t pass = NewPass();
  uint32_t future = 0;
  Ok(PassExecute(guest(), pass, &future, out_));
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_EQ(text(), "this pass was executed already; make a new one");
}

TEST_F(ApiTest, RefusalsComeFromExecute) {
  uint32_t future = 0;
  uint32_t pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::Embedding);
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_EQ(text(), "embedding: this model gives no embeddings");

  pass = NewPass();
  Sample(pass, pie_bridge::SamplerKind::Multinomial, UINT32_MAX);
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_NE(text().find("a pass gives at most 65536 slots"), std::string::npos) << text();

  pass = 0;
  Ok(PassNew(guest(), model_, &pass, out_));
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_NE(text().find("empty input"), std::string::npos);
}

// The memory that a guest's passes take in the engine has an end, and comes back.
TEST_F(ApiTest, PassesHaveAMemoryLimit) {
  const std::vector<uint32_t> many(1'000, 'a'), positions(1'000);
  std::vector<uint32_t> passes;
  uint32_t future = 0;
  std::string refusal;
  for (int i = 0; i < 500 && refusal.empty(); ++i) {
    uint32_t pass = 0;
    if (!PassNew(guest(), model_, &pass, out_)) {
      refusal = text();
      break;
    }
    passes.push_back(pass);
    Ok(Input(pass, many, positions));
    if (!PassExecute(guest(), pass, &future, out_) &&
        text().find("memory limit") != std::string::npos) {
      refusal = text();
    }
  }
  EXPECT_EQ(refusal, "memory limit: the passes and unread results of an inferlet have 1 MiB");
  EXPECT_GT(passes.size(), 100u);
  for (uint32_t pass : passes) Ok(HandleDrop(guest(), HandleKind::ForwardPass, pass, out_));
  Ok(PassExecute(guest(), NewPass(), &future, out_));
}

TEST_F(ApiTest, SamplersWithoutRowsCountToo) {
  const uint32_t pass = NewPass();
  uint32_t future = 0;
  for (int i = 0; i < 20'000; ++i) Sample(pass, pie_bridge::SamplerKind::TopK, 1, {});
  EXPECT_FALSE(PassExecute(guest(), pass, &future, out_));
  EXPECT_NE(text().find("memory limit"), std::string::npos) << text();
}

TEST_F(ApiTest, LaunchNamesWhatIsMissing) {
  uint32_t child = 0;
  EXPECT_FALSE(RuntimeLaunch(guest(), ToStr("nobody"), ToStr("{}"), &child, out_));
  EXPECT_EQ(text(), "no program is named 'nobody'; install it first");
}

TEST_F(ApiTest, WhatCannotBeWaitedForSaysSo) {
  const pie_bridge::Signal* signal = nullptr;
  EXPECT_FALSE(HandleSignal(guest(), HandleKind::Model, model_, &signal, out_));
  EXPECT_EQ(text(), "this kind of handle cannot be waited for");
  EXPECT_FALSE(HandleSignal(guest(), HandleKind::FutureOutput, 77, &signal, out_));
  EXPECT_EQ(text(), "no output has handle 77");
}

}  // namespace
}  // namespace pie::host
