// Config: config.toml, which says what an engine runs with. Without a file, the defaults: the model
// that set-up fetched, on the CPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "host/limits.h"
#include "sched/scheduler.h"
#include "wasm/runtime.h"

namespace pie::cli {

struct ModelEntry {
  enum class Driver { kCpu, kDummy, kCuda };

  std::string name = "default";
  std::string weights;  // hf_repo: what FindModel takes; empty = the default model
  Driver driver = Driver::kCpu;
  std::string kv_cache_dtype = "f16";
  uint64_t seed = 0;
  // 0 = the device's own choice.
  uint32_t page_tokens = 0;
  uint32_t total_pages = 0;
  uint32_t max_batch_tokens = 0;
  uint32_t max_batch_members = 0;
  uint32_t max_positions = 0;
  uint32_t threads = 0;
  SchedulerOptions scheduler;
  uint64_t token_limit =
      0;  // tokens a process may compute unless it is said otherwise; 0 = no limit
};

struct Config {
  std::vector<ModelEntry> models = {ModelEntry{}};  // the first is the default
  wasm::RuntimeOptions runtime;
  bool allow_fs = false;
  std::string scratch_root;
  std::string data_root;      // empty = no /data
  std::string snapshot_root;  // empty = contexts are saved in memory only
  bool prefix_cache = true;
  bool shared_prefixes = false;
  host::Limits limits;
  bool shared_topics = false;
  uint64_t take_ahead = 0;  // bytes of each model's KV memory that are taken before they are used
};

// Reads `path`; an empty path means $PIE_HOME/config.toml if that exists, else the defaults.
Result<Config> ReadConfig(const std::string& path);

// One dummy model in place of those that were configured, with their options.
void UseDummy(Config& config);

std::string CacheDir();  // $PIE_CACHE, or pie/ in the user's cache folder
std::string HomeDir();   // $PIE_HOME, or ~/.pie
std::string UserHome();  // $HOME, or a folder for what passes

}  // namespace pie::cli
