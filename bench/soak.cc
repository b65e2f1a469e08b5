// pie-soak: runs the engine for a long time, under cancellation and overload, and counts what
// it has not freed.
//
//   pie-soak launches --seconds 120     cancelled, trapped and cut at random moments
//   pie-soak cancels                    cancelled before, inside and after every host function
//   pie-soak overload --seconds 60      two users who want four times the memory that there is
//
// Prints one JSON object. bench/reliability.py runs all of it.
#include "soak.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "must.h"
#include "speech/dummy_model.h"

namespace pie::soak {

std::unique_ptr<host::Engine> StartEngine(const Options& options, const DummyOptions& device,
                                          host::EngineOptions engine) {
  engine.models.push_back(
      {MakeDummyModel("default", device.vocab_size),
       std::make_unique<Scheduler>(MakeDummyBackend(device), SchedulerOptions{})});
  engine.runtime.cache_dir = options.folder + "/code";
  engine.runtime.compiler = options.compiler;
  engine.snapshot_root = options.folder + "/snapshots";
  engine.allow_fs = true;
  engine.scratch_root = options.folder + "/scratch";
  auto started = Must(host::Engine::Start(std::move(engine)));
  std::ifstream file(options.guest, std::ios::binary);
  host::Manifest manifest;
  manifest.name = "bench-soak";
  manifest.version = "0.1.0";
  Must(started->AddProgram(manifest, std::string(std::istreambuf_iterator<char>(file), {}), {}));
  return started;
}

Counters Count(host::Engine& engine) {
  if (!engine.WaitIdle(60'000)) throw std::runtime_error("the engine does not become idle");
  // Saves that were requested are written although their inferlets have ended.
  for (int i = 0; i < 10'000 && engine.stats().sequences > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const host::EngineStats stats = engine.stats();
  const host::Totals& totals = engine.users().totals();
  // Each user keeps a little for their next inferlet.
  constexpr size_t kKept = 8u << 20;
  const size_t memory = totals.memory->used();
  Counters counters;
  counters.held = {{"instances", stats.instances},
                   {"handles", static_cast<uint64_t>(stats.handles)},
                   {"sequences", stats.sequences},
                   {"pages", stats.pages},
                   {"processes", totals.processes->used()},
                   {"bytes of inputs", totals.inputs->used()},
                   {"contexts", totals.contexts->used()},
                   {"opened contexts", totals.opened->used()},
                   {"bytes of linear memory", totals.linear->used()},
                   {"detached processes", totals.detached->used()},
                   {"passes", totals.passes->used()},
                   {"open files", totals.open_files->used()},
                   {"topics", totals.topics->used()},
                   {"bytes of messages", totals.messages->used()},
                   {"bytes of memory", memory - std::min(memory, kKept)}};
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    counters.held["descriptors"] += entry.path().empty() ? 0 : 1;
  }
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0;
  statm >> total >> counters.resident_bytes;
  counters.resident_bytes *= 4'096;
  return counters;
}

Counters CountUntil(host::Engine& engine, const Counters& before) {
  Counters counters = Count(engine);
  for (int i = 0; i < 500 && counters.held != before.held; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    counters = Count(engine);
  }
  return counters;
}

std::string Differences(const Counters& before, const Counters& after) {
  std::string text;
  for (const auto& [name, count] : before.held) {
    const uint64_t now = after.held.at(name);
    if (now == count) continue;
    text += fmt::format("{}{}: {} before, {} after", text.empty() ? "" : "; ", name, count, now);
  }
  return text;
}

}  // namespace pie::soak

int main(int argc, char** argv) {
  pie::soak::Options options;
  CLI::App app("Runs the engine for a long time, and counts what it has not freed.", "pie-soak");
  app.add_option("--guest", options.guest)->required();
  app.add_option("--compiler", options.compiler);
  app.add_option("--folder", options.folder)->required();
  app.add_option("--seconds", options.seconds);
  app.add_option("--launches", options.launches);
  app.add_option("--seed", options.seed);
  app.require_subcommand(1);
  app.fallthrough();  // for subcommands that are added from here on
  const CLI::App* launches = app.add_subcommand("launches");
  const CLI::App* cancels = app.add_subcommand("cancels");
  app.add_subcommand("overload");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto figures = *launches  ? pie::soak::RunLaunches(options)
                         : *cancels ? pie::soak::RunCancels(options)
                                    : pie::soak::RunOverload(options);
    fmt::print("{}\n", figures.dump());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "pie-soak: {}\n", error.what());
    return 1;
  }
}
