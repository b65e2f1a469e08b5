// Config: the engine's part of config.toml. Without a file, the defaults apply: the model that
// `make setup` fetched, on the CPU.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/limits.h"
#include "host/mcp_pool.h"
#include "sched/scheduler.h"
#include "speech/script.h"
#include "speech/turn_recorder.h"
#include "wasm/runtime.h"

namespace pie::cli {

struct ModelEntry {
  enum class Driver { kAuto, kCpu, kDummy, kCuda };

  std::string name = "default";
  std::string weights;            // hf_repo: an argument of FindModel; empty: the default model
  std::string draft;              // the model that guesses its tokens; empty: none does
  Driver driver = Driver::kAuto;  // the GPU if there is one that this build can use, else the CPU
  std::string vocabulary;         // of the dummy driver: an argument of FindModel; empty: its own
  int device = 0;                 // number of the GPU
  double gpu_memory_share = 0.9;  // of its free memory, for weights and KV pages
  bool deterministic = false;     // on a GPU: the same tokens whatever else is in the batch
  std::string kv_cache_dtype;     // empty: the device's default
  std::string weight_dtype;       // on a GPU: "auto" (or empty), "bf16" or "fp8"
  uint64_t seed = 0;
  // 0: the device's default.
  uint32_t page_tokens = 0;
  uint32_t total_pages = 0;
  uint32_t max_batch_tokens = 0;
  uint32_t max_batch_members = 0;
  uint32_t max_positions = 0;
  uint32_t threads = 0;
  bool asynchronous = false;  // batches run on a thread of their own, two at a time
  SchedulerOptions scheduler;
  // Tokens that a process may compute if its launch sets no budget; 0: no limit.
  uint64_t token_limit = 0;
  std::shared_ptr<Script> script;          // the script of a dummy model; null: gibberish
  std::shared_ptr<TurnRecorder> recorder;  // receives the model's output; may be null
};

struct Config {
  std::vector<ModelEntry> models = {ModelEntry{}};  // the first is the default
  wasm::RuntimeOptions runtime;
  bool several_users =
      false;  // there may be several users; otherwise the engine notices the second one
  bool allow_fs = true;
  std::string scratch_root;
  std::string data_root;      // empty: no /data
  std::string snapshot_root;  // empty: contexts are saved in memory only
  std::string adapter_root;   // empty: adapters are in memory only
  bool prefix_cache = true;
  bool shared_prefixes = false;
  host::Limits limits;
  uint64_t memory_bytes = 0;  // that the engine may use; 0: what the machine or its group has
  // Whether the config file sets these limits. MemoryPlan fits only the others to the machine.
  bool linear_is_set = false;
  bool adapter_memory_is_set = false;
  bool compile_memory_is_set = false;
  bool shared_topics = false;
  std::vector<host::McpServerConfig> mcp;
  // This much of each model's KV memory is prefaulted in the background.
  uint64_t prefault_bytes = 0;
};

// Reads `path`. If it is empty, reads $PIE_HOME/config.toml, or returns the defaults if that does
// not exist.
Result<Config> ReadConfig(const std::string& path);

// Replaces the configured models by one dummy model with the options of the first. `flag` is the
// value of --dummy: kPlainDummy, or the model whose vocabulary and chat template it has.
inline constexpr std::string_view kPlainDummy =
    "true";  // the value that CLI11 gives to a bare flag
void UseDummy(Config& config, std::string_view flag = kPlainDummy);

std::string CacheDir();  // $PIE_CACHE, or pie/ in the user's cache folder
std::string HomeDir();   // $PIE_HOME, or ~/.pie
std::string UserHome();  // $HOME, or the folder for temporary files

}  // namespace pie::cli
