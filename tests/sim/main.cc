// pie-sim: simulated worlds, one per seed.
//
//   pie-sim --seeds 200 [--first 0]     runs 200 worlds; the first that goes wrong ends the run
//   pie-sim --seed 17                   runs that world alone
//
// Every second world has a device that takes two or three batches at a time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "world.h"

namespace pie::sim {
namespace {

WorldOptions WorldOf(uint64_t seed) {
  return {.seed = seed,
          .guests = 2 + static_cast<uint32_t>(seed % 11),
          .actions = 60,
          .batches_in_flight = seed % 2 == 0 ? 1U : 2U + static_cast<uint32_t>(seed / 2 % 2)};
}

int RunSeeds(uint64_t first, uint64_t count) {
  WorldReport all;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const Result<WorldReport> report = RunWorld(WorldOf(seed));
    if (!report) {
      fmt::print(stderr, "seed {}: {}\nreplay: pie-sim --seed {}\n", seed, report.error().text,
                 seed);
      return 1;
    }
    all.answers += report->answers;
    all.failures += report->failures;
    all.steps += report->steps;
    all.steps_ahead += report->steps_ahead;
    all.suspensions += report->suspensions;
    all.replayed_tokens += report->replayed_tokens;
    all.saved += report->saved;
    all.opened += report->opened;
    all.opened_adapted += report->opened_adapted;
    all.pages_restored += report->pages_restored;
    all.ticks_with_a_price += report->ticks_with_a_price;
    all.longest_wait_ns = std::max(all.longest_wait_ns, report->longest_wait_ns);
  }
  fmt::print(
      "{} worlds: {} answers, {} failures of the device, {} steps, {} of them ahead, {} "
      "suspensions, "
      "{} tokens replayed, {} saved, {} opened ({} adapted), {} pages read back, {} rounds with a "
      "price, "
      "longest wait "
      "{:.1f} s\n",
      count, all.answers, all.failures, all.steps, all.steps_ahead, all.suspensions,
      all.replayed_tokens, all.saved, all.opened, all.opened_adapted, all.pages_restored,
      all.ticks_with_a_price, static_cast<double>(all.longest_wait_ns) * 1e-9);
  if (count >= 100 && all.opened_adapted == 0) {
    fmt::print(stderr, "no sequence with tokens of adapters was opened\n");
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace pie::sim

int main(int argc, char** argv) {
  CLI::App app("simulated worlds for the scheduler");
  uint64_t first = 0;
  uint64_t count = 200;
  std::optional<uint64_t> seed;
  app.add_option("--first", first, "the first seed");
  app.add_option("--seeds", count, "how many");
  app.add_option("--seed", seed, "this one alone");
  CLI11_PARSE(app, argc, argv);
  return seed ? pie::sim::RunSeeds(*seed, 1) : pie::sim::RunSeeds(first, count);
}
