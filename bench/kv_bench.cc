// pie-kv-bench: measures what contexts cost: forks on the dummy backend, snapshots on a real model.
// Prints one flat JSON object.
//
//   pie-kv-bench [MODEL]        without a model, it measures forks only
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/dummy/dummy_backend.h"
#include "feed.h"
#include "host/context.h"
#include "host/snapshots.h"
#include "must.h"

namespace pie::host {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kTokens = 2000;

double Ms(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::unique_ptr<Context> NewContext(Scheduler& scheduler) {
  auto context = std::make_unique<Context>(&scheduler, 0, scheduler.Create(), Extent{});
  Must(context->Reserve(kTokens / scheduler.info().page_tokens + 8));
  return context;
}

// Forks a context of 2,000 tokens while 10,000 others live. A time ends when the step thread has
// made the fork. Forks are made in groups, so that the wait for the thread is divided among them.
void MeasureForks(nlohmann::ordered_json& results) {
  constexpr int kLive = 10'000;
  constexpr int kGroup = 100;
  Scheduler scheduler(MakeDummyBackend({.total_pages = 1 << 14}), {});
  auto parent = NewContext(scheduler);
  Feed(*parent, kTokens, 1);
  std::vector<std::unique_ptr<Context>> live;
  const auto fork = [&](int count) {
    for (int i = 0; i < count; ++i) live.push_back(Must(parent->Fork()));
    if (!scheduler.WaitIdle(60'000)) std::exit(1);
  };
  live.reserve(2 * kLive);
  const size_t before = mallinfo2().uordblks;
  fork(kLive);
  results["fork_bytes"] = static_cast<double>(mallinfo2().uordblks - before) / kLive;
  std::vector<double> us;
  for (int group = 0; group < kLive / kGroup; ++group) {
    const auto start = Clock::now();
    fork(kGroup);
    us.push_back(Ms(start) * 1e3 / kGroup);
  }
  results["fork_p50_us"] = Median(us);
}

// Computes, saves and opens 2,000 tokens. Opening ends with a pass of one token, which loads the
// context's pages into the device; the time that the pass itself takes is subtracted.
void MeasureSnapshots(const char* model, nlohmann::ordered_json& results) {
  namespace fs = std::filesystem;
  std::string folder = (fs::temp_directory_path() / "pie-kv-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) std::exit(1);
  Limits limits;
  {
    // Without the prefix cache. With it, the second context would reuse the first one's pages.
    Scheduler scheduler(Must(MakeCpuBackend(model, {})), {.prefix = {.share = false}});
    Snapshots snapshots(limits, folder, {{"default", &scheduler}});
    std::vector<double> compute, save, open;
    for (uint32_t round = 0; round < 3; ++round) {
      auto context = NewContext(scheduler);
      auto start = Clock::now();
      Feed(*context, kTokens, round);
      compute.push_back(Ms(start));
      start = Clock::now();
      const auto saving = Must(snapshots.Save("bench", "s", *context));
      while (!saving->ready()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      Must(saving->Take());
      save.push_back(Ms(start));
      Feed(*context, 1, 5);
      start = Clock::now();
      Feed(*context, 1, 6);
      const double pass = Ms(start);
      context.reset();
      for (int i = 0; i < 3; ++i) {
        start = Clock::now();
        auto opened = Must(snapshots.Open("bench", 0, "s"));
        Feed(*opened, 1, 5);
        open.push_back(Ms(start) - pass);
      }
    }
    results["snapshot_compute_2000_ms"] = Median(compute);
    results["snapshot_save_2000_ms"] = Median(save);
    results["snapshot_open_2000_ms"] = Median(open);
    results["snapshot_open_speedup_2000"] = Median(compute) / std::max(Median(open), 1e-3);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace pie::host

int main(int argc, char** argv) {
  nlohmann::ordered_json results;
  pie::host::MeasureForks(results);
  if (argc > 1) pie::host::MeasureSnapshots(argv[1], results);
  fmt::print("{}\n", results.dump(2));
}
