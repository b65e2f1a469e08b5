// The fixture of the tests in which a neighbour of another user runs beside an attack.
#pragma once

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "hostile.h"

namespace pie::host {

using Kind = wasm::Exit::Kind;
using std::chrono::milliseconds;

inline constexpr std::string_view kSteady = R"({"mode": "steady"})";

inline size_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  size_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

class Availability : public testing::Test {
 protected:
  void StartEngine(EngineOptions options = {}, DummyOptions device = {}) {
    auto engine = StartAnother(std::move(options), device);
    ASSERT_TRUE(engine) << engine.error().text;
    engine_ = *std::move(engine);
  }

  std::shared_ptr<Process> Attack(std::string_view mode, size_t n = 0) {
    auto process = engine_->Launch("hostile", fmt::format(R"({{"mode": "{}", "n": {}}})", mode, n),
                                   {.username = "mallory"});
    EXPECT_TRUE(process) << process.error().text;
    if (process) attackers_.push_back(*process);
    return process ? *process : nullptr;
  }

  // Runs the neighbour alone, then beside the attackers that `attack` launches, for a while.
  template <class F>
  void Beside(F attack, std::string input = std::string(kSteady),
              milliseconds during = milliseconds(1500)) {
    Neighbour neighbour(*engine_, std::move(input));
    neighbour.P99Of(5);  // warms up
    const auto alone = neighbour.P99Of(60);
    const size_t memory_before = ResidentBytes();
    neighbour.Start();
    attack();
    std::this_thread::sleep_for(during);
    const auto beside = neighbour.Stop();
    const size_t memory = ResidentBytes();
    EXPECT_GT(neighbour.launches(), 0u);
    // The floor is for machines that are busy with something else.
    EXPECT_LT(beside.count(), std::max(10 * alone.count(), 0.25))
        << neighbour.launches() << " launches; alone: " << alone.count() << " s";
    EXPECT_LT(memory, memory_before + (size_t{2} << 30));
    RecordProperty("p99_alone_us", static_cast<int>(alone.count() * 1e6));
    RecordProperty("p99_beside_us", static_cast<int>(beside.count() * 1e6));
    RecordProperty("grown_mib", static_cast<int>((memory - std::min(memory, memory_before)) >> 20));
  }

  // Ends the attackers. All that they held must be free again.
  void TearDown() override {
    for (const auto& attacker : attackers_) attacker->Cancel();
    for (const auto& attacker : attackers_) attacker->Wait();
    attackers_.clear();
    if (!engine_) return;
    EXPECT_TRUE(engine_->WaitIdle(10'000));
    // Saves that were asked for are written although their inferlets have ended. Launches that were
    // queued fail when their turn comes. Threads that work for grammars finish what they have
    // begun.
    constexpr size_t kKept = 2u << 20;  // what two users keep for their next inferlet
    const auto is_busy = [&] {
      const Totals& totals = engine_->users().totals();
      return engine_->stats().sequences > 0 || totals.inputs->used() > 0 ||
             totals.memory->used() > kKept;
    };
    for (int i = 0; i < 10'000 && is_busy(); ++i) std::this_thread::sleep_for(milliseconds(1));
    const EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.instances, 0u);
    EXPECT_EQ(stats.handles, 0);
    EXPECT_EQ(stats.sequences, 0u);
    EXPECT_EQ(stats.pages, 0u);
    const Totals& totals = engine_->users().totals();
    EXPECT_EQ(totals.processes->used(), 0u);
    EXPECT_EQ(totals.inputs->used(), 0u);
    EXPECT_EQ(totals.contexts->used(), 0u);
    EXPECT_EQ(totals.passes->used(), 0u);
    EXPECT_EQ(totals.open_files->used(), 0u);
    EXPECT_LE(totals.memory->used(), kKept);
  }

  std::unique_ptr<Engine> engine_;
  std::vector<std::shared_ptr<Process>> attackers_;
};

inline void ExpectText(const wasm::Exit& exit, Kind kind, std::string_view words) {
  EXPECT_EQ(exit.kind, kind) << exit.text;
  EXPECT_NE(exit.text.find(words), std::string::npos) << exit.text;
}

}  // namespace pie::host
