// pie-bench: measures what the engine itself costs, on the dummy backend. Prints one flat JSON
// object.
//
//   pie-bench EMPTY.wasm GUEST.wasm
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "host/engine.h"
#include "must.h"
#include "speech/dummy_model.h"
#include "step_bench.h"

namespace pie::host {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::string ReadFile(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class Bench {
 public:
  Bench(const char* empty, const char* guest) {
    EngineOptions options;
    for (uint32_t vocab : {0u, 50'000u}) {
      options.models.push_back({MakeDummyModel(vocab == 0 ? "small" : "wide", vocab),
                                std::make_unique<Scheduler>(
                                    MakeDummyBackend({.vocab_size = vocab, .total_pages = 1 << 16}),
                                    SchedulerOptions{})});
    }
    engine_ = Must(Engine::Start(std::move(options)));
    Add("empty", empty);
    Add("guest", guest);
  }

  // Milliseconds from launch to return of empty inferlets, one after another.
  std::vector<double> Launches(int count) {
    std::vector<double> ms;
    for (int i = 0; i < count; ++i) {
      const auto start = Clock::now();
      Finish({Must(engine_->Launch("empty", "\"\"", {}))});
      ms.push_back(Seconds(start) * 1e3);
    }
    return ms;
  }

  // Launches per second, `width` at once.
  double LaunchRate(int width, int rounds) {
    std::vector<double> rates;
    for (int round = 0; round < rounds; ++round) {
      const auto start = Clock::now();
      std::vector<std::shared_ptr<Process>> processes;
      for (int i = 0; i < width; ++i)
        processes.push_back(Must(engine_->Launch("empty", "\"\"", {})));
      Finish(processes);
      rates.push_back(width / Seconds(start));
    }
    return Median(rates);
  }

  // Nanoseconds per host call, measured by the guest.
  double HostCall(const char* mode, uint32_t calls, int model = 0) {
    std::vector<double> ns;
    for (int i = 0; i < 7; ++i) {
      auto text = Finish({Must(engine_->Launch("guest", Input(mode, calls, model), {}))});
      ns.push_back(nlohmann::json::parse(text).get<double>());
    }
    return Median(ns);
  }

  // Tokens per second of the stepped generation loop, of all inferlets together.
  double TokenRate(int inferlets, uint32_t tokens) {
    std::vector<double> rates;
    for (int round = 0; round < 5; ++round) {
      const auto start = Clock::now();
      std::vector<std::shared_ptr<Process>> processes;
      for (int i = 0; i < inferlets; ++i) {
        processes.push_back(Must(engine_->Launch("guest", Input("generate", tokens, 0), {})));
      }
      Finish(processes);
      rates.push_back(inferlets * static_cast<double>(tokens) / Seconds(start));
    }
    return Median(rates);
  }

  // Median of the microseconds from the end of a single inferlet's pass until it asks for the
  // result.
  double Resume() {
    std::vector<double> us;
    auto process = Must(engine_->Launch("guest", Input("generate", 20'000, 0), {}));
    while (!process->exit()) {
      us.push_back(static_cast<double>(engine_->pace()->last_wake_up_ns) * 1e-3);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
    Finish({process});
    return Median(us);
  }

  // Runs `width` inferlets at once. Returns their tokens per second together, and how many failed.
  std::pair<double, int> Crowd(int inferlets, uint32_t tokens) {
    const auto start = Clock::now();
    std::vector<std::shared_ptr<Process>> processes;
    for (int i = 0; i < inferlets; ++i) {
      processes.push_back(Must(engine_->Launch("guest", Input("generate", tokens, 0), {})));
    }
    int failures = 0;
    for (const auto& process : processes) {
      if (process->Wait().kind != wasm::Exit::Kind::kReturned) ++failures;
    }
    return {inferlets * static_cast<double>(tokens) / Seconds(start), failures};
  }

 private:
  static std::string Input(const char* mode, uint32_t n, int model) {
    return fmt::format(R"({{"mode": "{}", "n": {}, "model": {}}})", mode, n, model);
  }

  void Add(const char* name, const char* path) {
    Manifest manifest;
    manifest.name = name;
    manifest.version = "0.1.0";
    Must(engine_->AddProgram(manifest, ReadFile(path), {}));
  }

  // Waits for all processes. Returns the value that the last one returned.
  static std::string Finish(const std::vector<std::shared_ptr<Process>>& processes) {
    std::string text;
    for (const auto& process : processes) {
      wasm::Exit exit = process->Wait();
      if (exit.kind != wasm::Exit::Kind::kReturned)
        Must<int>(Fail(Code::kInternal, "{}", exit.text));
      text = exit.text;
    }
    return text;
  }

  std::unique_ptr<Engine> engine_;
};

int Main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: pie-bench EMPTY.wasm GUEST.wasm\n");
    return 1;
  }
  Bench bench(argv[1], argv[2]);
  nlohmann::ordered_json results;
  bench.Launches(200);  // warm
  auto launches = bench.Launches(2000);
  std::ranges::sort(launches);
  results["launch_p50_ms"] = launches[launches.size() / 2];
  results["launch_p99_ms"] = launches[launches.size() * 99 / 100];
  results["launches_per_s_64"] = bench.LaunchRate(64, 31);
  results["launches_per_s_256"] = bench.LaunchRate(256, 15);
  results["host_call_u32_ns"] = bench.HostCall("call_u32", 1'000'000);
  results["host_call_list_u32_1000_ns"] = bench.HostCall("call_list", 100'000);
  results["host_call_logits_50000_us"] = bench.HostCall("call_logits", 500, 1) / 1e3;
  results["dummy_tps_1"] = bench.TokenRate(1, 4000);
  results["dummy_tps_4"] = bench.TokenRate(4, 4000);
  results["dummy_tps_16"] = bench.TokenRate(16, 2000);
  results["step_overhead_b64_p50_us"] = StepOverheadUs(64);
  results["resume_p50_us"] = bench.Resume();
  const auto [tps, failures] = bench.Crowd(1000, 100);
  results["concurrent_1000_tps"] = tps;
  results["concurrent_1000_failures"] = failures;
  fmt::print("{}\n", results.dump(2));
  return 0;
}

}  // namespace
}  // namespace pie::host

int main(int argc, char** argv) {
  return pie::host::Main(argc, argv);
}
