// pie-gpu-engine-bench: measures the engine on the CUDA device, on random weights of real shapes.
// Prints one flat JSON object.
//
//   pie-gpu-engine-bench tax      [--shape SHAPE] [--rounds 6] [--tokens 96] [--crew N] GUEST.wasm
//   pie-gpu-engine-bench contexts [--shape SHAPE] [--folder /dev/shm] [--huge-folder PATH]
//                                 GUEST.wasm
//
// The shapes are 8b, 1b, 0.6b and 30b-a3b (gpu_shapes.h).
//
// `tax`: the cost of letting programs drive the model. The time per token of inferlets is compared
// with that of a bare loop, right before and right after, which puts the same batches to the device
// without the engine: two at a time for chained inferlets, one by one for stepped ones.
//
// `contexts`: how soon the first token of an inferlet comes whose prompt is in the prefix cache,
// and how fast contexts are saved and opened. Choose a folder whose files are in memory. Files of
// as many bytes are also written from ordinary memory: by one thread with write(2), and as contexts
// are saved. So the folder's own limits are known. The same is measured in a second folder, if one
// is given; its keys begin with "huge_". It is meant to be a tmpfs with huge pages.
//
// The shape "dummy" is the dummy device, to try the program on a machine without a GPU.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "backend/asynchronous.h"
#include "backend/cuda/cuda_backend.h"
#include "backend/dummy/dummy_backend.h"
#include "base/thread_team.h"
#include "feed.h"
#include "gpu_shapes.h"
#include "host/context.h"
#include "host/snapshots.h"
#include "kv/snapshot_file.h"
#include "must.h"
#include "speech/dummy_model.h"
#include "tax_guests.h"

namespace pie {
namespace {

using Steady = std::chrono::steady_clock;
using Results = nlohmann::ordered_json;

constexpr double kSteady = 0.05;  // relative difference of two times on a steady machine
constexpr uint32_t kPrompt = 32;  // tokens of the prompt, computed before the clock starts

struct Options {
  std::string shape = "8b";
  std::string guest;
  std::string folder = "/dev/shm";
  std::string huge_folder;
  std::vector<uint32_t> batches = {1, 64};
  uint32_t rounds = 6;
  uint32_t tokens = 96;  // length of each generation
  uint32_t prefix = 16'384;
  uint32_t saved = 32'768;
  uint32_t latency_us = 1000;  // latency of the dummy device
  std::optional<size_t> crew;  // threads that help to run inferlets
};

double Ms(Steady::time_point since) {
  return std::chrono::duration<double, std::milli>(Steady::now() - since).count();
}

std::unique_ptr<Backend> OpenDevice(const Options& options) {
  if (options.shape == "dummy") {
    return MakeAsynchronous(
        MakeDummyBackend({.vocab_size = 32'000, .page_tokens = 32, .total_pages = 1 << 13}),
        {.batches_in_flight = 2, .latency_us = options.latency_us});
  }
  return Must(MakeRandomCudaBackend(ShapeOf(options.shape), {.max_batch_tokens = 2048}));
}

// Compares one way of driving the model with its bare loop.
class Comparison {
 public:
  Comparison(std::string mode, uint32_t batch, Guests& guests, BareGenerations& bare)
      : mode_(std::move(mode)), batch_(batch), guests_(guests), bare_(bare) {}

  void Round(uint32_t tokens) {
    if (before_ == 0) before_ = Bare();
    guests_.TakeSteps();
    const std::vector<double> each = guests_.Run(mode_.c_str(), batch_, tokens, kPrompt);
    const Steps steps = guests_.TakeSteps();
    const double after = Bare();
    const double bare = (before_ + after) / 2;
    if (std::abs(after - before_) < kSteady * before_) {
      taxes_.push_back(Median(steps.periods) / bare);
      guest_taxes_.push_back(Median(each) / bare);
    }
    times_.push_back(Median(steps.periods));
    bare_times_.push_back(bare);
    gaps_.push_back(Median(steps.gaps));
    alone_.push_back(static_cast<double>(steps.gaps.size()) /
                     std::max<double>(1, static_cast<double>(steps.periods.size())));
    before_ = after;
  }

  void Report(Results& results) const {
    const std::string key = fmt::format("{}_b{}", mode_, batch_);
    results["tax_" + key] = Median(taxes_);
    results["tax_by_guests_" + key] = Median(guest_taxes_);
    results["step_ms_" + key] = Median(times_) / 1e6;
    results["bare_step_ms_" + key] = Median(bare_times_) / 1e6;
    results["step_gap_us_" + key] = Median(gaps_) / 1e3;
    results["share_submitted_to_an_idle_device_" + key] = Median(alone_);
    results["steady_rounds_" + key] = taxes_.size();
    fmt::print(stderr, "{}: {:.4f} (by the guests' clocks {:.4f}), {:.3f} ms against {:.3f} ms\n",
               key, Median(taxes_), Median(guest_taxes_), Median(times_) / 1e6,
               Median(bare_times_) / 1e6);
  }

 private:
  double Bare() { return mode_ == "chained" ? bare_.Chain() : bare_.Step(); }

  const std::string mode_;
  const uint32_t batch_;
  Guests& guests_;
  BareGenerations& bare_;
  double before_ = 0;
  std::vector<double> taxes_, guest_taxes_, times_, bare_times_, gaps_, alone_;
};

void Taxes(const Options& options, Backend& device, Results& results) {
  Guests guests(options.guest, MakeDummyModel("default", device.info().vocab_size), device,
                {.crew_threads = options.crew});
  for (const uint32_t batch : options.batches) {
    BareGenerations bare(device, batch, kPrompt, options.tokens);
    bare.Chain();  // warm
    for (const char* mode : {"chained", "stepped"}) {
      guests.Run(mode, batch, options.tokens, kPrompt);  // computes the prompts
      Comparison comparison(mode, batch, guests, bare);
      for (uint32_t round = 0; round < options.rounds; ++round) comparison.Round(options.tokens);
      comparison.Report(results);
    }
  }
}

// Launches an inferlet whose prompt is in the prefix cache, again and again.
void WarmPrefix(const Options& options, Backend& device, Results& results) {
  Guests guests(options.guest, MakeDummyModel("default", device.info().vocab_size), device,
                {.crew_threads = options.crew});
  auto start = Steady::now();
  const double token = guests.Run("first", 1, 1, options.prefix)[0];
  results["cold_prefix_ms"] = Ms(start);
  std::vector<double> ms;
  for (int i = 0; i < 20; ++i) {
    start = Steady::now();
    const double again = guests.Run("first", 1, 1, options.prefix)[0];
    ms.push_back(Ms(start));
    if (again >= device.info().vocab_size || token >= device.info().vocab_size) {
      Must<int>(Fail(Code::kInternal, "the first token is {}", again));
    }
  }
  results["warm_prefix_ms"] = Median(ms);
  fmt::print(stderr, "first token behind {} tokens: {:.2f} ms, cold {:.1f} ms\n", options.prefix,
             Median(ms), results["cold_prefix_ms"].get<double>());
}

// Writes `pages` pages of `page_bytes` bytes to the folder, twice in two ways. The first time, the
// system's memory may be new.
void WriteFiles(const std::string& folder, uint32_t pages, size_t page_bytes,
                const std::string& prefix, Results& results) {
  const double gb = static_cast<double>(pages) * static_cast<double>(page_bytes) / 1e9;
  ThreadTeam team("bench", ThreadTeam::Size(12));
  const std::vector<std::byte> content(team.threads() * page_bytes, std::byte{1});
  const auto page = [&](size_t i) {
    return std::span(content).subspan(i % team.threads() * page_bytes, page_bytes);
  };
  for (int round = 0; round < 2; ++round) {
    auto start = Steady::now();
    {
      std::ofstream file(folder + "/plain", std::ios::binary);
      for (uint32_t i = 0; i < pages; ++i) {
        file.write(reinterpret_cast<const char*>(page(i).data()),
                   static_cast<std::streamsize>(page_bytes));
      }
    }
    results[prefix + "folder_write_gb_s"] = gb / Ms(start) * 1e3;
    std::filesystem::remove(folder + "/plain");
    start = Steady::now();
    SnapshotWriter writer = Must(SnapshotWriter::Create(folder));
    Must(writer.Reserve(pages * (page_bytes + sizeof(uint64_t))));
    team.Run(pages, [&](size_t i) { Must(writer.WritePage(static_cast<uint32_t>(i), page(i))); });
    results[prefix + "folder_save_gb_s"] = gb / Ms(start) * 1e3;
  }
  fmt::print(stderr, "the folder: {:.1f} GB/s by one thread, {:.1f} GB/s as contexts are saved\n",
             results[prefix + "folder_write_gb_s"].get<double>(),
             results[prefix + "folder_save_gb_s"].get<double>());
}

// Saves and opens a context. Opening ends with a pass of one token, which brings the pages into the
// device; the time that the pass itself takes is subtracted.
void Snapshots(const Options& options, const std::string& where, const std::string& prefix,
               Backend& device, Results& results) {
  namespace fs = std::filesystem;
  std::string folder = (fs::path(where) / "pie-gpu-bench-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    Must<int>(Fail(Code::kUnavailable, "{} cannot be written", where));
  }
  Steps steps;
  host::Limits limits;
  {
    // Without the prefix cache. With it, the second context would reuse the first one's pages.
    Scheduler scheduler(std::make_unique<LowerHalf>(device, steps), {.prefix = {.share = false}});
    host::Snapshots snapshots(limits, folder, {{"default", &scheduler}});
    auto context =
        std::make_unique<host::Context>(&scheduler, 0, scheduler.Create(), host::Extent{});
    const uint32_t pages = options.saved / scheduler.info().page_tokens;
    Must(context->Reserve(pages + 8));
    Feed(*context, options.saved, 1);
    std::vector<double> save, open;
    for (int round = 0; round < 4; ++round) {
      const auto start = Steady::now();
      const auto saving = Must(snapshots.Save("bench", "s", *context));
      while (!saving->ready()) std::this_thread::sleep_for(std::chrono::microseconds(100));
      Must(saving->Take());
      save.push_back(Ms(start));
    }
    Feed(*context, 1, 5);
    auto start = Steady::now();
    Feed(*context, 1, 6);
    const double pass = Ms(start);
    context.reset();
    for (int round = 0; round < 4; ++round) {
      start = Steady::now();
      auto opened = Must(snapshots.Open("bench", 0, "s"));
      Feed(*opened, 1, 5);
      open.push_back(Ms(start) - pass);
    }
    WriteFiles(folder, pages, scheduler.info().page_bytes, prefix, results);
    const double gb = static_cast<double>(pages) * scheduler.info().page_bytes / 1e9;
    results["snapshot_gb"] = gb;
    results[prefix + "save_gb_s"] = gb / Median(save) * 1e3;
    results[prefix + "open_gb_s"] = gb / Median(open) * 1e3;
    fmt::print(stderr, "{}: {} tokens, {:.2f} GB: save {:.1f} GB/s, open {:.1f} GB/s\n", where,
               options.saved, gb, gb / Median(save) * 1e3, gb / Median(open) * 1e3);
  }
  fs::remove_all(folder);
}

}  // namespace
}  // namespace pie

int main(int argc, char** argv) {
  pie::Options options;
  CLI::App app("Measures the engine on the CUDA device.");
  app.require_subcommand(1);
  CLI::App* const tax = app.add_subcommand("tax", "the cost of letting programs drive the model");
  CLI::App* const contexts = app.add_subcommand("contexts", "warm prefixes, saving and opening");
  for (CLI::App* const command : {tax, contexts}) {
    command->add_option("--shape", options.shape, "8b, 1b, 0.6b, 30b-a3b, or dummy");
    command->add_option("--latency-us", options.latency_us, "a batch's time, of the dummy device");
    command->add_option("--crew", options.crew, "threads that help the step thread");
    command->add_option("guest", options.guest, "bench-guest.wasm")->required();
  }
  tax->add_option("--batches", options.batches, "how many inferlets generate at once")
      ->delimiter(',');
  tax->add_option("--rounds", options.rounds, "rounds of measuring each mode once");
  tax->add_option("--tokens", options.tokens, "length of each generation");
  contexts->add_option("--folder", options.folder, "where contexts are saved");
  contexts->add_option("--huge-folder", options.huge_folder, "a second folder, in huge pages");
  contexts->add_option("--prefix", options.prefix, "tokens of the warm prefix");
  contexts->add_option("--saved", options.saved, "tokens of the context that is saved");
  CLI11_PARSE(app, argc, argv);
  pie::Results results;
  results["shape"] = options.shape;
  const auto device = pie::OpenDevice(options);
  if (*tax) pie::Taxes(options, *device, results);
  if (*contexts) {
    pie::WarmPrefix(options, *device, results);
    pie::Snapshots(options, options.folder, "", *device, results);
    if (!options.huge_folder.empty()) {
      pie::Snapshots(options, options.huge_folder, "huge_", *device, results);
    }
  }
  fmt::print("{}\n", results.dump(2));
  return 0;
}
