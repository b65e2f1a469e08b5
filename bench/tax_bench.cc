// pie-tax-bench: measures what it costs that a program drives the model. The time per token of
// inferlets that generate is compared with that of a bare loop, which puts the same batches to the
// same device without the engine. Prints one flat JSON object.
//
//   pie-tax-bench --model FILE [--threads 2] [--rounds 240] [--tokens 24] GUEST.wasm
//   pie-tax-bench --model FILE [--threads 2] --agents 32 GUEST.wasm
//
// The second form compares agents that keep their contexts while they wait for tools with agents
// that send their whole prompt again in every turn. The prefix cache is off for both.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "bare_loop.h"
#include "host/engine.h"
#include "must.h"
#include "speech/open_model.h"

namespace pie {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSteady = 0.05;  // relative difference of two times on a steady machine
constexpr uint32_t kPrompt = 32;  // tokens of the prompt, computed before the clock starts

struct Options {
  std::string model;
  std::string guest;
  uint32_t threads = 2;
  uint32_t rounds = 240;  // half of them with 16 inferlets
  uint32_t tokens = 24;   // length of each generation
  uint32_t agents = 0;
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

double Ns(Clock::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

// Times at the device between two decode batches of equal size, in nanoseconds. Written by the step
// thread, read while nothing runs.
struct Steps {
  std::vector<double> periods;  // from the end of one batch to the end of the next
  std::vector<double> gaps;  // the device's wait in between: the cost of the engine and its guests
  size_t members = 0;        // of the last batch
  Clock::time_point ended;
};

// A device with the lower half of another's pages. The engine uses it; the bare loop uses the rest.
class LowerHalf final : public Backend {
 public:
  LowerHalf(Backend& whole, Steps& steps) : whole_(whole), info_(whole.info()), steps_(steps) {
    info_.total_pages /= 2;
  }
  const BackendInfo& info() const override { return info_; }
  Result<Ticket> Submit(const Batch& batch) override {
    const size_t members = batch.members.size();
    follows_ = members == steps_.members && batch.tokens.size() == members;
    steps_.members = members;
    if (follows_) steps_.gaps.push_back(Ns(Clock::now() - steps_.ended));
    return whole_.Submit(batch);
  }
  Result<BatchOutput> Wait(Ticket ticket) override {
    auto output = whole_.Wait(ticket);
    const auto now = Clock::now();
    if (follows_) steps_.periods.push_back(Ns(now - steps_.ended));
    steps_.ended = now;
    return output;
  }
  void SetMeanwhile(const std::shared_ptr<Meanwhile>& meanwhile) override {
    whole_.SetMeanwhile(meanwhile);
  }
  Status ReadPage(PageId page, std::span<std::byte> content) override {
    return whole_.ReadPage(page, content);
  }
  Status WritePage(PageId page, std::span<const std::byte> content) override {
    return whole_.WritePage(page, content);
  }

 private:
  Backend& whole_;
  BackendInfo info_;
  Steps& steps_;
  bool follows_ = false;
};

// The prompt of the guest with this index (bench/guest).
uint32_t PromptToken(uint32_t index, uint32_t place) {
  return 1000 + (index * 977 + place * 131) % 20'000;
}

// The generations of the inferlets, computed by a bare loop in the upper half of the pages.
class BareGenerations {
 public:
  // Computes the prompts of `count` sequences, once.
  BareGenerations(Backend& backend, uint32_t count, uint32_t steps)
      : loop_(backend, backend.info().total_pages / 2), steps_(steps), sequences_(count) {
    for (uint32_t i = 0; i < count; ++i) {
      std::vector<uint32_t> prompt;
      for (uint32_t place = 0; place + 1 < kPrompt; ++place)
        prompt.push_back(PromptToken(i, place));
      loop_.Feed(sequences_[i], prompt);
    }
  }

  // Generates from the prompts on. Returns the median of a step's nanoseconds.
  double Run() {
    for (uint32_t i = 0; i < sequences_.size(); ++i) {
      sequences_[i].tokens = kPrompt - 1;
      sequences_[i].next = PromptToken(i, kPrompt - 1);
    }
    std::vector<double> periods;
    auto ended = Clock::now();
    for (uint32_t step = 0; step < steps_; ++step) {
      loop_.Step(sequences_);
      const auto now = Clock::now();
      periods.push_back(Ns(now - std::exchange(ended, now)));
    }
    return Median(std::move(periods));
  }

 private:
  BareLoop loop_;
  const uint32_t steps_;
  std::vector<BareLoop::Sequence> sequences_;
};

// Writes to all pages, so that the system has given their memory, as for a server that has been
// busy for a while. Otherwise only the bare loop, which reuses a few pages, would not wait for
// memory.
void TakePages(Backend& backend) {
  const std::vector<std::byte> nothing(backend.info().page_bytes);
  for (uint32_t page = 0; page < backend.info().total_pages; ++page) {
    Must(backend.WritePage(PageId{page}, nothing));
  }
}

class Guests {
 public:
  Guests(const Options& options, Backend& whole) {
    host::EngineOptions engine;
    engine.models.push_back(
        {Must(OpenModel(options.model, "default")),
         std::make_unique<Scheduler>(std::make_unique<LowerHalf>(whole, steps_),
                                     SchedulerOptions{.prefix = {.share = options.agents == 0}})});
    engine_ = Must(host::Engine::Start(std::move(engine)));
    std::ifstream file(options.guest, std::ios::binary);
    host::Manifest manifest;
    manifest.name = "guest";
    manifest.version = "0.1.0";
    Must(engine_->AddProgram(manifest, std::string(std::istreambuf_iterator<char>(file), {}), {}));
  }

  // Runs `count` inferlets at once. Returns what each of them returned.
  std::vector<double> Run(const char* mode, uint32_t count, uint32_t n, uint32_t prompt) {
    std::vector<std::shared_ptr<host::Process>> processes;
    for (uint32_t i = 0; i < count; ++i) {
      const std::string input =
          fmt::format(R"({{"mode": "{}", "n": {}, "index": {}, "peers": {}, "prompt": {}}})", mode,
                      n, i, count, prompt);
      processes.push_back(Must(engine_->Launch("guest", input, {})));
    }
    std::vector<double> values;
    for (const auto& process : processes) {
      const wasm::Exit exit = process->Wait();
      if (exit.kind != wasm::Exit::Kind::kReturned) {
        Must<int>(Fail(Code::kInternal, "{}", exit.text));
      }
      values.push_back(nlohmann::json::parse(exit.text).get<double>());
    }
    engine_->WaitIdle(1000);
    return values;
  }
  Steps TakeSteps() { return std::exchange(steps_, {}); }

 private:
  Steps steps_;
  std::unique_ptr<host::Engine> engine_;
};

// Measures what agents gain that keep their contexts.
void Agents(Guests& guests, uint32_t count, nlohmann::ordered_json& results) {
  constexpr uint32_t kTools = 8;
  constexpr uint32_t kAgentPrompt = 64;
  std::map<std::string, std::vector<double>> said;
  std::map<std::string, double> seconds;
  for (const char* mode : {"agent_kept", "agent_resent"}) {
    const auto start = Clock::now();
    said[mode] = guests.Run(mode, count, kTools, kAgentPrompt);
    seconds[mode] = std::chrono::duration<double>(Clock::now() - start).count();
  }
  if (said["agent_kept"] != said["agent_resent"]) {
    Must<int>(Fail(Code::kInternal,
                   "agents that kept and agents that resent their prompts said different things"));
  }
  results[fmt::format("agents{}_speedup", count)] = seconds["agent_resent"] / seconds["agent_kept"];
  results[fmt::format("agents{}_kept_s", count)] = seconds["agent_kept"];
  results[fmt::format("agents{}_resent_s", count)] = seconds["agent_resent"];
}

int Main(const Options& options) {
  CpuOptions cpu;
  cpu.threads = options.threads;
  const std::unique_ptr<Backend> backend = Must(MakeCpuBackend(options.model, cpu));
  TakePages(*backend);
  Guests guests(options, *backend);
  nlohmann::ordered_json results;
  if (options.agents > 0) {
    Agents(guests, options.agents, results);
    fmt::print("{}\n", results.dump(2));
    return 0;
  }
  for (const uint32_t batch : {1U, 16U}) {
    BareGenerations bare(*backend, batch, options.tokens);
    bare.Run();  // warm
    guests.Run("stepped", batch, options.tokens, kPrompt);
    std::map<std::string, std::vector<double>> taxes, gaps, times;
    // The speed of the machine varies. Each time is compared with the bare loop's right before and
    // right after it, and is dropped if these two differ.
    double before = bare.Run();
    times["bare"].push_back(before);
    for (uint32_t round = 0; round < options.rounds / (batch == 1 ? 1 : 2); ++round) {
      for (const std::string mode : {"chained", "stepped"}) {
        guests.TakeSteps();
        guests.Run(mode.c_str(), batch, options.tokens, kPrompt);
        const Steps steps = guests.TakeSteps();
        const double after = bare.Run();
        if (std::abs(after - before) < kSteady * before) {
          taxes[mode].push_back(2 * Median(steps.periods) / (before + after));
        }
        gaps[mode].push_back(Median(steps.gaps));
        times[mode].push_back(Median(steps.periods));
        times["bare"].push_back(after);
        before = after;
      }
    }
    for (const auto& [mode, tax] : taxes) {
      results[fmt::format("tax_{}_b{}", mode, batch)] = Median(tax);
      results[fmt::format("step_gap_us_{}_b{}", mode, batch)] = Median(gaps[mode]) / 1e3;
    }
    for (const auto& [mode, time] : times) {
      results[fmt::format("step_ms_{}_b{}", mode, batch)] = Median(time) / 1e6;
    }
  }
  fmt::print("{}\n", results.dump(2));
  return 0;
}

}  // namespace
}  // namespace pie

int main(int argc, char** argv) {
  pie::Options options;
  CLI::App app("Measures what it costs that a program drives the model.");
  app.add_option("--model", options.model, "a GGUF file or a Hugging Face folder")->required();
  app.add_option("--threads", options.threads, "threads of the device");
  app.add_option("--rounds", options.rounds, "rounds of measuring each mode once");
  app.add_option("--tokens", options.tokens, "length of each generation");
  app.add_option("--agents", options.agents, "measure this many agents instead of the tax");
  app.add_option("guest", options.guest, "bench-guest.wasm")->required();
  CLI11_PARSE(app, argc, argv);
  return pie::Main(options);
}
