// pie-tax-bench: what it costs that a program drives the model. Time a token of inferlets that
// generate, by turns with the bare loop: the same batches on the same device without any of the
// engine. Prints one flat JSON object.
//
//   pie-tax-bench --model FILE [--threads 2] [--rounds 240] [--tokens 24] GUEST.wasm
//   pie-tax-bench --model FILE [--threads 2] --agents 32 GUEST.wasm
//
// The latter: agents that keep their contexts while they wait for tools, against the same agents
// sending all of theirs anew in every turn. Nothing finds equal beginnings again.
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
#include "host/engine.h"
#include "speech/open_model.h"

namespace pie {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSteady = 0.05;  // by how much a steady machine's times differ
constexpr uint32_t kPrompt = 32;  // tokens that are there before the clock starts

struct Options {
  std::string model;
  std::string guest;
  uint32_t threads = 2;
  uint32_t rounds = 240;  // half of them with 16 inferlets
  uint32_t tokens = 24;   // of each generation
  uint32_t agents = 0;
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

// An error ends the program: a benchmark of something broken is worth nothing.
template <class T>
T Must(Result<T> result) {
  if (!result) {
    fmt::print(stderr, "pie-tax-bench: {}\n", result.error().text);
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

double Ns(Clock::duration duration) {
  return std::chrono::duration<double, std::nano>(duration).count();
}

// What is seen at the device between two batches of as many single tokens, in nanoseconds: from
// the end of one to that of the next, and how much of it the device had to wait, which is all that
// the engine and its guests cost. Written by the step thread, read while nothing runs.
struct Steps {
  std::vector<double> periods, gaps;
  size_t members = 0;  // of the last batch
  Clock::time_point ended;
};

// The lower half of a device's pages, for the engine; the bare loop has the other half.
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

// As the guest makes it.
uint32_t PromptToken(uint32_t index, uint32_t place) {
  return 1000 + (index * 977 + place * 131) % 20'000;
}

// The same batches with nothing around them, in the upper half of the pages.
class BareLoop {
 public:
  // The prompts of `count` sequences are computed here, once.
  BareLoop(Backend& backend, uint32_t count, uint32_t steps)
      : backend_(backend), count_(count), steps_(steps), pages_each_(PagesFor(kPrompt + steps)) {
    const std::vector<SampleSpec> last = {{.rows = {kPrompt - 2}}};
    for (uint32_t i = 0; i < count_; ++i) {
      Batch batch;
      for (uint32_t place = 0; place + 1 < kPrompt; ++place) {
        batch.tokens.push_back(PromptToken(i, place));
        batch.positions.push_back(place);
      }
      AddPages(batch, i, kPrompt - 1);
      batch.members.push_back({.rows = kPrompt - 1,
                               .pages = static_cast<uint32_t>(batch.pages.size()),
                               .samples = &last});
      Must(backend_.Wait(Must(backend_.Submit(batch))));
    }
  }

  // Nanoseconds a step, a token of each sequence, from the prompts on.
  double Run() {
    std::vector<uint32_t> next;
    for (uint32_t i = 0; i < count_; ++i) next.push_back(PromptToken(i, kPrompt - 1));
    const std::vector<SampleSpec> only_row = {{.rows = {0}}};
    Batch batch;
    std::vector<double> periods;
    auto ended = Clock::now();
    for (uint32_t step = 0; step < steps_; ++step) {
      const uint32_t length = kPrompt - 1 + step;
      batch.tokens.clear();
      batch.positions.clear();
      batch.pages.clear();
      batch.members.clear();
      for (uint32_t i = 0; i < count_; ++i) {
        const auto first_page = static_cast<uint32_t>(batch.pages.size());
        AddPages(batch, i, length + 1);
        batch.members.push_back({.first_row = i,
                                 .rows = 1,
                                 .first_page = first_page,
                                 .pages = static_cast<uint32_t>(batch.pages.size()) - first_page,
                                 .kv_tokens = length,
                                 .samples = &only_row});
        batch.tokens.push_back(next[i]);
        batch.positions.push_back(length);
      }
      const BatchOutput output = Must(backend_.Wait(Must(backend_.Submit(batch))));
      for (uint32_t i = 0; i < count_; ++i) {
        next[i] = std::get<TokenSlot>(output.slots[i].at(0)).token;
      }
      const auto now = Clock::now();
      periods.push_back(Ns(now - std::exchange(ended, now)));
    }
    return Median(std::move(periods));
  }

 private:
  uint32_t PagesFor(uint32_t tokens) const {
    return (tokens + backend_.info().page_tokens - 1) / backend_.info().page_tokens;
  }
  void AddPages(Batch& batch, uint32_t sequence, uint32_t tokens) const {
    for (uint32_t i = 0; i < PagesFor(tokens); ++i) {
      batch.pages.push_back(PageId{backend_.info().total_pages / 2 + sequence * pages_each_ + i});
    }
  }

  Backend& backend_;
  const uint32_t count_;
  const uint32_t steps_;
  const uint32_t pages_each_;
};

// Has the system give all memory of the pages, as a server has by the time that it is busy: the
// bare loop writes to the same few again and again, and would be the only one that need not wait
// for it.
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

  // What each of `count` inferlets returns.
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

// What agents gain that keep what was computed.
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
    Must<int>(Fail(Code::kInternal, "the agents did not say the same"));
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
    BareLoop bare(*backend, batch, options.tokens);
    bare.Run();  // warm
    guests.Run("stepped", batch, options.tokens, kPrompt);
    std::map<std::string, std::vector<double>> taxes, gaps, times;
    // The machine is now faster, now slower: what is compared was measured right before and right
    // after, and does not count where these two already differ.
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
  CLI::App app("What it costs that a program drives the model.");
  app.add_option("--model", options.model, "a GGUF file or a Hugging Face folder")->required();
  app.add_option("--threads", options.threads, "of the device");
  app.add_option("--rounds", options.rounds, "of turns");
  app.add_option("--tokens", options.tokens, "of each generation");
  app.add_option("--agents", options.agents, "how many, instead of the tax");
  app.add_option("guest", options.guest, "bench-guest.wasm")->required();
  CLI11_PARSE(app, argc, argv);
  return pie::Main(options);
}
