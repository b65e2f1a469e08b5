// For the tests of host calls: a process that no guest runs, on an engine with the dummy model.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "host/api.h"
#include "sched/testing.h"
#include "speech/dummy_model.h"

namespace pie::host {

class ApiTest : public ::testing::Test {
 protected:
  struct Setup {
    std::string snapshot_root = {};  // empty: contexts are saved in memory
    testing::Device device = testing::Device::kSynchronous;
    SchedulerOptions scheduler = {};
    bool mask_thread = false;
    bool draft_model = false;  // a model "small", which is the same, guesses for the first
  };

  explicit ApiTest(const std::string& snapshot_root = "")
      : ApiTest(Setup{.snapshot_root = snapshot_root}) {}
  explicit ApiTest(const Setup& setup) {
    EngineOptions options;
    options.snapshot_root = setup.snapshot_root;
    options.mask_thread = setup.mask_thread;
    auto backend = testing::MakeDevice(setup.device, DummyOptions{.page_tokens = 4}, gate_);
    options.models.push_back({MakeDummyModel("default"),
                              std::make_unique<Scheduler>(std::move(backend), setup.scheduler)});
    if (setup.draft_model) {
      options.models[0].draft = "small";
      options.models.push_back(
          {MakeDummyModel("small"),
           std::make_unique<Scheduler>(MakeDummyBackend({.page_tokens = 4}), SchedulerOptions{})});
    }
    options.runtime.max_instances = 1;
    options.limits.max_inferlet_bytes = 2 << 20;
    engine_ = *Engine::Start(std::move(options));
    process_ = std::make_shared<Process>(engine_.get(), InstanceId{1}, Process::Options{});
    model_ = Ok(ModelLoad(*process_, "default"));
    context_ = Ok(ContextCreate(*process_, model_));
    Ok(ContextReserveWorkingPages(*process_, context_, 4));
  }
  ~ApiTest() override {
    gate_->Open();
    process_->OnExit({});
    process_.reset();
    EXPECT_TRUE(engine_->WaitIdle(5000));
    const EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.handles, 0);
    EXPECT_EQ(stats.sequences, 0u);
  }

  // The answer of a host function that waits, as the bridge makes it wait.
  template <class Call>
  static auto Waited(Call call) {
    Wait wait{};
    while (true) {
      auto answer = call(wait);
      if (std::exchange(wait.signal, nullptr) == nullptr) return answer;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  // The result of a call that must succeed.
  template <class T>
  static T Ok(Result<T> answer) {
    EXPECT_TRUE(answer) << ErrorOf(answer);
    if constexpr (!std::is_void_v<T>) return answer ? *std::move(answer) : T{};
  }
  // The text of its error, or nothing.
  template <class T>
  static std::string ErrorOf(const Result<T>& answer) {
    return answer ? "" : answer.error().text;
  }

  uint32_t NewPass(std::vector<uint32_t> tokens = {'a'}) {
    const uint32_t pass = Ok(ForwardPassNew(*process_, model_));
    Ok(ForwardPassContext(*process_, pass, context_));
    const std::vector<uint32_t> positions(tokens.size());
    Ok(Input(pass, tokens, positions));
    return pass;
  }
  Status Input(uint32_t pass, const std::vector<uint32_t>& tokens,
               const std::vector<uint32_t>& positions) {
    return ForwardPassInputTokens(*process_, pass, tokens, positions);
  }
  void Sample(uint32_t pass, pie_bridge::SamplerKind kind, uint32_t count = 1,
              std::vector<uint32_t> rows = {0}) {
    const pie_bridge::Sampler sampler{.kind = kind, .temperature = 0, .count = count, .p = 1};
    Ok(ForwardPassSampler(*process_, pass, rows, sampler));
  }
  bool Ready(uint32_t future) { return Ok(FutureOutputGet(*process_, future)).has_value(); }
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
  uint32_t model_ = 0, context_ = 0;
};

}  // namespace pie::host
