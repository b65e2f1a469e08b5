// pie-tax-bench: measures the cost of letting a program drive the model. The time per token of
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
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "must.h"
#include "speech/open_model.h"
#include "tax_guests.h"

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

// Writes to all pages, so that the system has given their memory, as for a server that has been
// busy for a while. Otherwise only the bare loop, which reuses a few pages, would not wait for
// memory.
void TakePages(Backend& backend) {
  const std::vector<std::byte> nothing(backend.info().page_bytes);
  for (uint32_t page = 0; page < backend.info().total_pages; ++page) {
    Must(backend.WritePage(PageId{page}, nothing));
  }
}

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
  // Agents that send their prompts again must not find them in the cache.
  Guests guests(options.guest, Must(OpenModel(options.model, "default")), *backend,
                {.prefix = {.share = options.agents == 0}});
  nlohmann::ordered_json results;
  if (options.agents > 0) {
    Agents(guests, options.agents, results);
    fmt::print("{}\n", results.dump(2));
    return 0;
  }
  for (const uint32_t batch : {1U, 16U}) {
    BareGenerations bare(*backend, batch, kPrompt, options.tokens);
    bare.Step();  // warm
    guests.Run("stepped", batch, options.tokens, kPrompt);
    std::map<std::string, std::vector<double>> taxes, gaps, times;
    // The speed of the machine varies. Each time is compared with the bare loop's right before and
    // right after it, and is dropped if these two differ.
    double before = bare.Step();
    times["bare"].push_back(before);
    for (uint32_t round = 0; round < options.rounds / (batch == 1 ? 1 : 2); ++round) {
      for (const std::string mode : {"chained", "stepped"}) {
        guests.TakeSteps();
        guests.Run(mode.c_str(), batch, options.tokens, kPrompt);
        const Steps steps = guests.TakeSteps();
        const double after = bare.Step();
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
  CLI::App app("Measures the cost of letting a program drive the model.");
  app.add_option("--model", options.model, "a GGUF file or a Hugging Face folder")->required();
  app.add_option("--threads", options.threads, "threads of the device");
  app.add_option("--rounds", options.rounds, "rounds of measuring each mode once");
  app.add_option("--tokens", options.tokens, "length of each generation");
  app.add_option("--agents", options.agents, "measure this many agents instead of the tax");
  app.add_option("guest", options.guest, "bench-guest.wasm")->required();
  CLI11_PARSE(app, argc, argv);
  return pie::Main(options);
}
