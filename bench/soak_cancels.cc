// Cancels an inferlet before, inside and after every host function. The functions are those of the
// engine's own table, which is made from the contract: one that no inferlet calls is an error.
#include <array>
#include <atomic>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "host/host_table.h"
#include "host/mcp.h"
#include "pie_host_table.h"
#include "soak.h"

namespace pie::soak {
namespace {

using pie_bridge::HostTable;

enum Function : int {
#define X(name) k_##name,
  PIE_HOST_FUNCTIONS(X)
#undef X
      kFunctions
};

constexpr std::array<const char*, kFunctions> kNames = {
#define X(name) #name,
    PIE_HOST_FUNCTIONS(X)
#undef X
};

enum class Phase { kBefore, kInside, kAfter };

// The moment at which to cancel the inferlet, and the calls that were seen so far. One inferlet
// that is watched runs at a time.
struct Watch {
  std::atomic<int> function = -1;
  std::atomic<Phase> phase = Phase::kBefore;
  std::atomic<bool> fired = false;
  std::array<std::atomic<bool>, kFunctions> called = {};
};
Watch watch;

host::Process& ProcessOf(void* guest) {
  return *static_cast<host::Process*>(static_cast<wasm::Guest*>(guest));
}

// Cancels on a thread of its own, so that the call and the cancellation overlap.
class Canceller {
 public:
  ~Canceller() {
    if (thread_.joinable()) thread_.join();
  }
  void Begin(std::shared_ptr<host::Process> process) {
    if (thread_.joinable()) thread_.join();
    std::atomic<bool> began = false;
    thread_ = std::thread([&began, process = std::move(process)] {
      began = true;
      process->Cancel();
    });
    while (!began) {
    }
  }

 private:
  std::thread thread_;
};
Canceller canceller;

bool IsMoment(int function, Phase phase) {
  return watch.function == function && watch.phase == phase && !watch.fired.exchange(true);
}

template <int kIndex, auto kEntry>
struct Hooked;

template <int kIndex, class... Args, bool (*HostTable::*kEntry)(void*, Args...)>
struct Hooked<kIndex, kEntry> {
  static bool Call(void* guest, Args... args) {
    watch.called[kIndex] = true;
    if (IsMoment(kIndex, Phase::kBefore)) ProcessOf(guest).Cancel();
    if (IsMoment(kIndex, Phase::kInside)) canceller.Begin(ProcessOf(guest).shared_from_this());
    const bool answer = (host::HostFunctions().*kEntry)(guest, args...);
    if (IsMoment(kIndex, Phase::kAfter)) ProcessOf(guest).Cancel();
    return answer;
  }
};

constexpr HostTable kHooked = {
#define X(name) .name = Hooked<k_##name, &HostTable::name>::Call,
    PIE_HOST_FUNCTIONS(X)
#undef X
};

// Answers every request at once.
class AnyServer final : public host::McpServers {
 public:
  std::vector<std::string> Names() override { return {"any"}; }
  Result<std::shared_ptr<host::Pending<host::McpAnswer>>> Ask(const host::McpRequest&) override {
    auto answer = std::make_shared<host::Pending<host::McpAnswer>>();
    answer->Set(host::McpAnswer("{}"));
    return answer;
  }
};

wasm::Exit Run(host::Engine& engine, const std::string& group) {
  auto process = engine.Launch("bench-soak", fmt::format(R"({{"mode": "{}"}})", group),
                               {.username = "ada", .mcp = std::make_shared<AnyServer>()});
  if (!process) throw std::runtime_error(process.error().text);
  return (*process)->Wait();
}

}  // namespace

nlohmann::json RunCancels(const Options& options) {
  host::EngineOptions engine_options;
  engine_options.runtime.host = &kHooked;
  auto engine = StartEngine(options, {.total_pages = 8'192}, std::move(engine_options));
  std::istringstream groups(Run(*engine, "groups").text);
  std::array<std::string, kFunctions> group_of;
  for (std::string group; groups >> group;) {
    for (auto& called : watch.called) called = false;
    const wasm::Exit exit = Run(*engine, group);
    if (exit.kind != wasm::Exit::Kind::kReturned) {
      throw std::runtime_error(fmt::format("{}: {}", group, exit.text));
    }
    for (int i = 0; i < kFunctions; ++i) {
      if (watch.called[i] && group_of[i].empty()) group_of[i] = group;
    }
  }
  const Counters before = Count(*engine);
  uint64_t points = 0;
  nlohmann::json missing = nlohmann::json::array();
  for (int i = 0; i < kFunctions; ++i) {
    for (const Phase phase : {Phase::kBefore, Phase::kInside, Phase::kAfter}) {
      if (group_of[i].empty()) continue;
      watch.fired = false;
      watch.phase = phase;
      watch.function = i;
      Run(*engine, group_of[i]);
      watch.function = -1;
      if (!watch.fired) throw std::runtime_error(fmt::format("{} was not called", kNames[i]));
      if (const std::string left = Differences(before, CountUntil(*engine, before));
          !left.empty()) {
        throw std::runtime_error(fmt::format("a cancellation {} {} left objects: {}",
                                             phase == Phase::kBefore   ? "before"
                                             : phase == Phase::kInside ? "inside"
                                                                       : "after",
                                             kNames[i], left));
      }
      ++points;
    }
    if (group_of[i].empty()) missing.push_back(kNames[i]);
  }
  return {{"soak_cancel_points", points},
          {"soak_host_functions", static_cast<int>(kFunctions)},
          {"soak_cancel_missing", missing}};
}

}  // namespace pie::soak
