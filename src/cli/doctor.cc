#include "cli/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "backend/cuda/cuda_backend.h"
#include "base/memory_limit.h"
#include "cli/bakery.h"
#include "cli/config.h"
#include "cli/models.h"
#include "cli/start_engine.h"
#include "cli/terminal.h"
#include "model/summary.h"

namespace pie::cli {
namespace {

class Report {
 public:
  void Good(std::string_view what, std::string_view detail) {
    fmt::print("{} {:<18} {}\n", Green("✓", STDOUT_FILENO), what, detail);
  }
  void Bad(std::string_view what, std::string_view detail, std::string_view fix) {
    fmt::print("{} {:<18} {}\n  {} {}\n", Red("✗", STDOUT_FILENO), what, detail, "fix:", fix);
    ++bad_;
  }
  int bad() const { return bad_; }

 private:
  int bad_ = 0;
};

double Gib(uint64_t bytes) {
  return static_cast<double>(bytes) / (1ull << 30);
}

void CheckMachine(Report& report) {
  const MemoryLimit memory = ReadMemoryLimit();
  std::string detail = fmt::format("{} cores, {:.1f} GiB memory",
                                   std::thread::hardware_concurrency(), Gib(memory.machine));
  if (memory.bytes() < memory.machine) {
    detail += fmt::format(", of which its control group may use {:.1f} GiB", Gib(memory.bytes()));
  }
  report.Good("machine", detail);
}

void CheckGpu(Report& report) {
  const CudaStatus cuda = FindCudaDevices();
  for (const std::string& device : cuda.devices) report.Good("gpu", device);
  if (cuda.devices.empty()) report.Good("gpu", "none: models run on the CPU; " + cuda.problem);
}

void CheckCache(Report& report) {
  std::string dir = CacheDir() + "/code";
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  std::string probe = fmt::format("{}/.doctor-{}", dir, getpid());
  std::ofstream file(probe);
  file << "x";
  file.close();
  const bool writable = !error && file.good();
  std::filesystem::remove(probe, error);
  if (writable) {
    report.Good("code cache", dir);
  } else {
    report.Bad(
        "code cache", dir + " is not writable, so the first launch after each start compiles again",
        "mkdir -p " + dir + " && chmod u+rwx " + dir + ", or set PIE_CACHE to another folder");
  }
}

void CheckConfig(Report& report) {
  auto config = ReadConfig("");
  std::string path = HomeDir() + "/config.toml";
  if (!config) {
    report.Bad("config", config.error().text, "correct that line, or rename the file");
  } else {
    report.Good("config", std::filesystem::exists(path) ? path : "no file: the defaults apply");
  }
}

void CheckEngine(Report& report) {
  Config config;
  UseDummy(config);
  config.allow_fs = false;  // no inferlet runs, so none needs a folder
  auto engine = StartEngine(config, true);
  if (engine) {
    report.Good("engine", fmt::format("pie {}, starts on the dummy model", PIE_VERSION));
  } else {
    report.Bad("engine", engine.error().text,
               "the engine reserves address space: run `ulimit -v unlimited`, or set a smaller "
               "runtime.wasm_max_instances in " +
                   HomeDir() + "/config.toml");
  }
}

void CheckModel(Report& report) {
  auto config = ReadConfig("");
  if (!config) return;  // CheckConfig has reported it
  for (const ModelEntry& entry : config->models) {
    if (entry.driver == ModelEntry::Driver::kDummy) continue;
    auto path = FindModel(entry.weights.empty() ? kDefaultModel : entry.weights);
    auto summary = path ? Summarize(*path) : std::unexpected(path.error());
    if (summary) {
      report.Good("model " + entry.name, fmt::format("{}: {}", *path, *summary));
    } else {
      report.Bad("model " + entry.name, summary.error().text,
                 entry.weights.empty() ? "pie model download" : "correct hf_repo in the config");
    }
  }
}

// Says how the memory is divided, and which keys of the config ask for more than there is.
void CheckMemory(Report& report) {
  const auto config = ReadConfig("");
  if (!config) return;  // CheckConfig has reported it
  const auto plan = EstimateMemory(*config);
  if (!plan) {
    // CheckModel has reported models that are missing or damaged.
    if (plan.error().code != Code::kExhausted) return;
    return report.Bad("memory", plan.error().text,
                      "change [model.driver.options] in the config, or runtime.memory_mb");
  }
  host::Limits limits = config->limits;
  plan->Cap(*config, limits);
  const std::string detail =
      fmt::format("of {:.1f} GiB, models take {:.1f}; inferlets may have {:.1f}", Gib(plan->total),
                  Gib(plan->models), Gib(limits.max_linear_bytes));
  if (limits.max_linear_bytes + limits.max_adapter_memory <= plan->room) {
    return report.Good("memory", detail);
  }
  report.Bad("memory", detail,
             "lower runtime.wasm_total_memory_mb or runtime.adapter_memory_mb, or remove them");
}

// Quotes a text as one word for the shell.
std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

void CheckBakery(Report& report) {
  std::string bakery = FindBakery();
  if (bakery.empty()) {
    report.Bad("bakery", "not found beside pie or on the PATH; inferlets can run but not be built",
               "make setup");
    return;
  }
  report.Good("bakery", bakery);
  std::fflush(stdout);
  // bakery prints its own report: one line per guest language.
  const int status = std::system(Quoted(bakery).append(" doctor").c_str());
  if (status != 0) report.Bad("guest languages", "see above", "make setup");
}

}  // namespace

int Doctor() {
  Report report;
  CheckMachine(report);
  CheckGpu(report);
  CheckCache(report);
  CheckConfig(report);
  CheckEngine(report);
  CheckModel(report);
  CheckMemory(report);
  CheckBakery(report);
  if (report.bad() == 0) fmt::print("no problems found\n");
  return report.bad() == 0 ? 0 : 1;
}

}  // namespace pie::cli
