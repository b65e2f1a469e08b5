// Shared by the hostile tests: where the guest is, and a neighbour that must not be disturbed.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "host/engine.h"
#include "speech/dummy_model.h"

namespace pie::host {

inline std::string Env(const char* name) {
  const char* value = std::getenv(name);
  PIE_CHECK(value != nullptr);
  return value;
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

inline Status AddHostile(Engine& engine) {
  Manifest manifest;
  manifest.name = "hostile";
  manifest.version = "0.1.0";
  return engine.AddProgram(manifest, ReadFile(Env("PIE_HOSTILE_GUEST")), {});
}

// An engine with the guest installed.
inline Result<std::unique_ptr<Engine>> StartAnother(EngineOptions options,
                                                    DummyOptions device = {}) {
  options.models.push_back(
      {MakeDummyModel("default", device.vocab_size),
       std::make_unique<Scheduler>(MakeDummyBackend(device), SchedulerOptions{})});
  options.runtime.cache_dir = Env("PIE_HOSTILE_CACHE");
  options.runtime.compiler = Env("PIE_HOSTILE_COMPILER");
  options.runtime.max_instances = 64;  // sanitizers leave little address space for instances
  auto engine = PIE_TRY(Engine::Start(std::move(options)));
  PIE_RETURN_IF_ERROR(AddHostile(*engine));
  return engine;
}

// A well-behaved user who launches the same inferlet again and again, on a thread of its own.
class Neighbour {
 public:
  using Seconds = std::chrono::duration<double>;
  Neighbour(Engine& engine, std::string input) : engine_(engine), input_(std::move(input)) {}
  ~Neighbour() { Stop(); }
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  // The 99th percentile of this many launches, each of which must succeed.
  Seconds P99Of(int launches) {
    times_.clear();
    for (int i = 0; i < launches; ++i) LaunchOnce();
    return P99();
  }
  void Start() {
    times_.clear();
    stop_ = false;
    thread_ = std::thread([this] {
      while (!stop_) LaunchOnce();
    });
  }
  // The 99th percentile since Start.
  Seconds Stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return P99();
  }
  size_t launches() const { return times_.size(); }

 private:
  void LaunchOnce() {
    const auto begin = std::chrono::steady_clock::now();
    auto process = engine_.Launch("hostile", input_, {.username = "neighbour"});
    EXPECT_TRUE(process) << process.error().text;
    if (process) {
      const wasm::Exit exit = (*process)->Wait();
      EXPECT_EQ(exit.kind, wasm::Exit::Kind::kReturned) << exit.text;
    }
    times_.push_back(std::chrono::steady_clock::now() - begin);
  }
  Seconds P99() const {
    if (times_.empty()) return {};
    std::vector<Seconds> sorted = times_;
    std::ranges::sort(sorted);
    return sorted[sorted.size() * 99 / 100 - (sorted.size() < 100 ? 0 : 1)];
  }

  Engine& engine_;
  const std::string input_;
  std::vector<Seconds> times_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace pie::host
