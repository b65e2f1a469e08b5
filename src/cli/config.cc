#include "cli/config.h"

#include <fmt/format.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/config_file.h"
#include "cli/config_table.h"
#include "cli/mcp_config.h"
#include "cli/testing/script_file.h"

namespace pie::cli {
namespace {

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string TempDir() {
  std::error_code error;  // TMPDIR may name a folder that does not exist
  auto dir = std::filesystem::temp_directory_path(error);
  return error ? "/tmp" : dir.string();
}

Result<ModelEntry::Driver> ReadDriver(const Table& driver, const std::string& path) {
  using Driver = ModelEntry::Driver;
  static constexpr std::pair<std::string_view, Driver> kKnown[] = {
      {"auto", Driver::kAuto}, {"cpu", Driver::kCpu},          {"portable", Driver::kCpu},
      {"cuda", Driver::kCuda}, {"cuda_native", Driver::kCuda}, {"dummy", Driver::kDummy},
  };
  const toml::node* const node = driver.Get("type");
  if (node == nullptr) return Driver::kAuto;
  const std::string name = node->value_or(std::string());
  for (const auto& [known, value] : kKnown) {
    if (name == known) return value;
  }
  return Fail(Code::kInvalid, "{}:{}: 'type' must be \"auto\", \"cpu\", \"cuda\" or \"dummy\"",
              path, node->source().begin.line);
}

// `device` is "cuda:1", a list of such names of which the first counts, or a number.
Result<int> ReadDevice(const Table& driver, const std::string& path) {
  const toml::node* const node = driver.Get("device");
  if (node == nullptr) return 0;
  const toml::array* const list = node->as_array();
  const toml::node* const first = list == nullptr ? node : list->empty() ? nullptr : list->get(0);
  if (first != nullptr) {
    std::string name = first->value_or(std::string());
    if (first->is_integer()) name = std::to_string(first->value_or(int64_t{-1}));
    if (name == "cpu" || name == "cuda") return 0;
    if (name.starts_with("cuda:")) name.erase(0, 5);
    const bool digits = !name.empty() && name.size() <= 3 &&
                        std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    if (digits) return std::stoi(name);
  }
  return Fail(Code::kInvalid, "{}:{}: 'device' must name a GPU, such as \"cuda:0\"", path,
              node->source().begin.line);
}

Status ReadScheduler(const toml::node* node, const std::string& path, SchedulerOptions* into,
                     uint64_t* token_limit) {
  Table table(node, "model.scheduler", path);
  std::string policy = "adaptive";
  table.Read("batch_policy", &policy);
  table.Read("request_timeout_secs", &into->request_timeout_ms, {.most = 86'400, .scale = 1'000});
  table.Read("default_endowment_pages", &into->memory.endowment_pages, {1, 1 << 26});
  table.Read("admission_oversubscription_factor", &into->memory.oversubscription, {0, 1000});
  table.Read("restore_pause_at_utilization", &into->memory.restore_pause_at, {0, 1});
  table.Read("default_token_limit", token_limit);
  table.Read("chains", &into->chains);
  table.Read("swap_always", &into->memory.swap_always);
  table.Read("suspend_every_steps", &into->suspend_every_steps, {.most = 1 << 20});
  if (!table.problem().empty()) return Fail(Code::kInvalid, "{}", table.problem());
  const std::optional<BatchPolicy> known = ParseBatchPolicy(policy);
  if (!known) {
    return Fail(Code::kInvalid,
                "{}:{}: 'batch_policy' must be \"greedy\", \"eager\" or \"adaptive\"", path,
                table.Get("batch_policy")->source().begin.line);
  }
  into->batch_policy = *known;
  return {};
}

Result<ModelEntry> ReadModel(const toml::node& model, std::string name, const std::string& path) {
  ModelEntry entry;
  if (!name.empty()) entry.name = std::move(name);
  Table top(&model, "model", path);
  Table driver(top.Get("driver"), "model.driver", path);
  Table options(driver.Get("options"), "model.driver.options", path);
  top.Read("name", &entry.name);
  top.Read("hf_repo", &entry.weights);
  top.Read("draft", &entry.draft);
  driver.Read("random_seed", &entry.seed);
  driver.Read("vocabulary", &entry.vocabulary);
  options.Read("kv_page_size", &entry.page_tokens, {.least = 1, .most = 1 << 16});
  options.Read("kv_cache_dtype", &entry.kv_cache_dtype);
  options.Read("weight_dtype", &entry.weight_dtype);
  options.Read("total_pages", &entry.total_pages, {.least = 1, .most = 1 << 26});
  options.Read("max_forward_tokens", &entry.max_batch_tokens, {.least = 1, .most = 1 << 20});
  options.Read("max_forward_requests", &entry.max_batch_members, {.least = 1, .most = 1 << 20});
  options.Read("max_positions", &entry.max_positions, {.least = 1, .most = 1 << 26});
  options.Read("swap_pool_size", &entry.scheduler.memory.swap_pages, {.most = 1 << 26});
  options.Read("threads", &entry.threads, {.least = 1, .most = 1024});
  options.Read("asynchronous", &entry.asynchronous);
  options.Read("gpu_mem_utilization", &entry.gpu_memory_share, {0, 1});
  options.Read("deterministic", &entry.deterministic);
  std::string script;
  options.Read("script", &script);
  for (const Table* table : {&top, &driver, &options}) {
    if (!table->problem().empty()) return Fail(Code::kInvalid, "{}", table->problem());
  }
  entry.driver = PIE_TRY(ReadDriver(driver, path));
  if (!entry.vocabulary.empty() && entry.driver != ModelEntry::Driver::kDummy) {
    return Fail(Code::kInvalid,
                "{}:{}: 'vocabulary' is for type = \"dummy\"; other drivers take the model's own",
                path, driver.Get("vocabulary")->source().begin.line);
  }
  entry.device = PIE_TRY(ReadDevice(driver, path));
  if (!script.empty()) entry.script = PIE_TRY(ReadScript(script));
  PIE_RETURN_IF_ERROR(
      ReadScheduler(top.Get("scheduler"), path, &entry.scheduler, &entry.token_limit));
  return entry;
}

// [[model]] in the order of the file, or tables [model.<name>], the first line first.
Result<std::vector<ModelEntry>> ReadModels(const toml::node& node, const std::string& path) {
  std::vector<std::pair<std::string, const toml::node*>> found;
  if (const toml::array* array = node.as_array(); array != nullptr && node.is_array_of_tables()) {
    for (const toml::node& model : *array) found.emplace_back("", &model);
  } else if (const toml::table* table = node.as_table()) {
    for (const auto& [name, model] : *table) found.emplace_back(std::string(name.str()), &model);
    std::ranges::sort(found, {}, [](const auto& e) { return e.second->source().begin.line; });
  }
  const bool tables = std::ranges::all_of(found, [](auto& e) { return e.second->is_table(); });
  if (found.empty() || !tables) {
    return Fail(Code::kInvalid, "{}:{}: write each model as [[model]] or as [model.<name>]", path,
                node.source().begin.line);
  }
  std::vector<ModelEntry> models;
  for (auto& [name, model] : found) {
    models.push_back(PIE_TRY(ReadModel(*model, std::move(name), path)));
    const auto same = [&](const ModelEntry& other) { return other.name == models.back().name; };
    if (std::ranges::count_if(models, same) > 1) {
      return Fail(Code::kInvalid, "{}:{}: two models are named '{}'", path,
                  model->source().begin.line, models.back().name);
    }
  }
  return models;
}

// Replaces a leading `~` of a path by the user's home.
void ExpandHome(std::string& path) {
  if (path.starts_with("~/")) path.replace(0, 1, UserHome());
}

}  // namespace

std::string CacheDir() {
  if (std::string dir = Env("PIE_CACHE"); !dir.empty()) return dir;
  if (std::string dir = Env("XDG_CACHE_HOME"); !dir.empty()) return dir + "/pie";
  return UserHome() + "/.cache/pie";
}

std::string HomeDir() {
  std::string dir = Env("PIE_HOME");
  return dir.empty() ? UserHome() + "/.pie" : dir;
}

std::string UserHome() {
  std::string home = Env("HOME");
  return home.empty() ? TempDir() : home;
}

void UseDummy(Config& config, std::string_view flag) {
  config.models.resize(1);
  config.models[0].driver = ModelEntry::Driver::kDummy;
  config.models[0].vocabulary = flag == kPlainDummy ? "" : flag;
}

Result<Config> ReadConfig(const std::string& given) {
  Config config;
  config.runtime.cache_dir = CacheDir() + "/code";
  config.runtime.compiler = "/proc/self/exe";
  config.scratch_root = fmt::format("{}/pie-scratch-{}", TempDir(), geteuid());
  config.data_root = HomeDir() + "/data";
  config.snapshot_root = HomeDir() + "/snapshots";
  config.adapter_root = HomeDir() + "/adapters";
  const auto file = PIE_TRY(ReadConfigFile(given));
  if (!file) return config;
  const auto& [path, root] = *file;
  Table runtime(root.get("runtime"), "runtime", path);
  wasm::Limits& limits = config.runtime.limits;
  runtime.Read("worker_threads", &config.runtime.worker_threads, {.most = 1024});
  runtime.Read("wasm_max_instances", &config.runtime.max_instances, {.least = 1});
  runtime.Read("wasm_max_memory_mb", &limits.max_memory_bytes, {1, 4096, 1 << 20});
  runtime.Read("wasm_total_memory_mb", &config.limits.max_linear_bytes,
               {.least = 1, .scale = 1 << 20});
  config.linear_is_set = runtime.Get("wasm_total_memory_mb") != nullptr;
  runtime.Read("memory_mb", &config.memory_bytes, {.scale = 1 << 20});
  runtime.Read("user_share_percent", &config.limits.user_share_percent, {.least = 1, .most = 100});
  runtime.Read("max_output_mb", &limits.max_output_bytes, {.scale = 1 << 20});
  runtime.Read("cpu_budget_ms", &limits.cpu_budget_ms);
  runtime.Read("allow_fs", &config.allow_fs);
  runtime.Read("fs_scratch_dir", &config.scratch_root);
  runtime.Read("fs_scratch_total_mb", &config.limits.max_scratch_total_bytes, {.scale = 1 << 20});
  runtime.Read("fs_scratch_quota_mb", &config.limits.max_scratch_bytes, {.scale = 1 << 20});
  runtime.Read("fs_data_dir", &config.data_root);
  ExpandHome(config.data_root);
  if (!config.allow_fs) config.data_root.clear();
  runtime.Read("fs_data_quota_mb", &config.limits.max_data_bytes, {.scale = 1 << 20});
  runtime.Read("shared_topics", &config.shared_topics);
  runtime.Read("snapshot_dir", &config.snapshot_root);
  ExpandHome(config.snapshot_root);
  runtime.Read("snapshot_quota_mb", &config.limits.max_snapshot_bytes, {.scale = 1 << 20});
  runtime.Read("max_snapshots", &config.limits.max_snapshots);
  runtime.Read("adapter_dir", &config.adapter_root);
  ExpandHome(config.adapter_root);
  runtime.Read("adapter_quota_mb", &config.limits.max_adapter_bytes, {.scale = 1 << 20});
  runtime.Read("adapter_memory_mb", &config.limits.max_adapter_memory, {.scale = 1 << 20});
  config.adapter_memory_is_set = runtime.Get("adapter_memory_mb") != nullptr;
  runtime.Read("max_adapters", &config.limits.max_adapters);
  runtime.Read("prefix_cache", &config.prefix_cache);
  std::string compiler = "both";
  runtime.Read("wasm_compiler", &compiler);
  runtime.Read("compile_secs", &config.runtime.compile_limits.cpu_secs, {.least = 1});
  runtime.Read("compile_memory_mb", &config.runtime.compile_limits.memory_bytes,
               {.least = 1, .scale = 1 << 20});
  config.compile_memory_is_set = runtime.Get("compile_memory_mb") != nullptr;
  std::string scope = "user";
  runtime.Read("prefix_cache_scope", &scope);
  Table http(runtime.Get("http"), "runtime.http", path);
  wasm::HttpLimits& http_limits = config.runtime.http;
  http.Read("allow", &config.runtime.http_allow);
  http.Read("max_requests", &http_limits.max_requests);
  http.Read("max_in_flight", &http_limits.max_in_flight, {.least = 1});
  http.Read("max_request_mb", &http_limits.max_request_bytes, {.scale = 1 << 20});
  http.Read("max_response_mb", &http_limits.max_response_bytes, {.scale = 1 << 20});
  http.Read("timeout_secs", &http_limits.timeout_ms, {1, 86'400, 1'000});
  if (!runtime.problem().empty()) return Fail(Code::kInvalid, "{}", runtime.problem());
  if (!http.problem().empty()) return Fail(Code::kInvalid, "{}", http.problem());
  if (scope != "user" && scope != "engine") {
    return Fail(Code::kInvalid, "{}:{}: 'prefix_cache_scope' must be \"user\" or \"engine\"", path,
                runtime.Get("prefix_cache_scope")->source().begin.line);
  }
  config.shared_prefixes = scope == "engine";
  if (compiler != "both" && compiler != "quick") {
    return Fail(Code::kInvalid, "{}:{}: 'wasm_compiler' must be \"both\" or \"quick\"", path,
                runtime.Get("wasm_compiler")->source().begin.line);
  }
  config.runtime.quick_only = compiler == "quick";
  config.mcp = PIE_TRY(ReadMcpServers(root, path));
  if (const toml::node* models = root.get("model")) {
    config.models = PIE_TRY(ReadModels(*models, path));
  }
  return config;
}

}  // namespace pie::cli
