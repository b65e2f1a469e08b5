// Shared by the parts of pie-soak: an engine on the dummy device that runs bench/soak, and its
// counters.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "backend/dummy/dummy_backend.h"
#include "host/engine.h"

namespace pie::soak {

struct Options {
  std::string guest;     // the component of bench/soak
  std::string compiler;  // the program `pie`
  std::string folder;    // for snapshots, scratch folders and compiled code
  double seconds = 60;
  uint64_t launches = 0;  // 0: no limit but the time
  uint64_t seed = 1;
};

std::unique_ptr<host::Engine> StartEngine(const Options& options, const DummyOptions& device,
                                          host::EngineOptions engine = {});

// Counts that must be the same before and after, and the memory of the process.
struct Counters {
  std::map<std::string, uint64_t> held;  // handles, contexts, pages, places, inputs and their bytes
  uint64_t resident_bytes = 0;
};
// Waits until nothing runs.
Counters Count(host::Engine& engine);
// Counts again until everything is as it was, for a few seconds at most: threads of the engine
// close files a moment after a process has ended.
Counters CountUntil(host::Engine& engine, const Counters& before);
// The counters that differ, with both values: "pages: 3 before, 4 after". Empty if none does.
std::string Differences(const Counters& before, const Counters& after);

// Each part returns its figures, and throws if it cannot measure.
nlohmann::json RunLaunches(const Options& options);
nlohmann::json RunCancels(const Options& options);
nlohmann::json RunOverload(const Options& options);

}  // namespace pie::soak
