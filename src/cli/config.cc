#include "cli/config.h"

#include <toml++/toml.h>

#include <cstdlib>
#include <filesystem>

namespace pie::cli {
namespace {

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string InHome(const char* folder) {
  std::string home = Env("HOME");
  return (home.empty() ? std::filesystem::temp_directory_path().string() : home) + "/" + folder;
}

// Reads typed values out of one table, and remembers the first that is wrong.
class Table {
 public:
  Table(const toml::table* table, std::string path) : table_(table), path_(std::move(path)) {}

  template <class T>
  void Read(std::string_view key, T* into, uint64_t scale = 1) {
    const toml::node* node = table_ == nullptr ? nullptr : table_->get(key);
    if (node == nullptr) return;
    if constexpr (std::is_same_v<T, std::string>) {
      if (auto value = node->value<std::string>()) return void(*into = *value);
      Complain(*node, key, "a text");
    } else if constexpr (std::is_same_v<T, bool>) {
      if (node->is_boolean()) return void(*into = node->as_boolean()->get());
      Complain(*node, key, "true or false");
    } else {
      const auto value = node->is_integer() ? node->as_integer()->get() : -1;
      const auto most = static_cast<uint64_t>(std::numeric_limits<T>::max()) / scale;
      if (value >= 0 && static_cast<uint64_t>(value) <= most) {
        return void(*into = static_cast<T>(static_cast<uint64_t>(value) * scale));
      }
      Complain(*node, key, "a whole number, 0 or more");
    }
  }
  const std::string& problem() const { return problem_; }

 private:
  void Complain(const toml::node& node, std::string_view key, std::string_view wanted) {
    if (!problem_.empty()) return;
    problem_ = fmt::format("{}:{}: '{}' must be {}", path_, node.source().begin.line, key, wanted);
  }
  const toml::table* table_;
  std::string path_;
  std::string problem_;
};

Status ReadModel(const toml::table& model, const std::string& path, Config* config) {
  const toml::table* driver = model["driver"].as_table();
  Table top(&model, path), drive(driver, path);
  Table options(driver == nullptr ? nullptr : (*driver)["options"].as_table(), path);
  top.Read("name", &config->model_name);
  drive.Read("type", &config->driver);
  drive.Read("random_seed", &config->dummy.seed);
  options.Read("kv_page_size", &config->dummy.page_tokens);
  options.Read("total_pages", &config->dummy.total_pages);
  options.Read("max_forward_tokens", &config->dummy.max_batch_tokens);
  options.Read("max_forward_requests", &config->dummy.max_batch_members);
  for (const Table* table : {&top, &drive, &options}) {
    if (!table->problem().empty()) return Fail(Code::kInvalid, "{}", table->problem());
  }
  if (config->dummy.page_tokens == 0 || config->dummy.total_pages == 0) {
    return Fail(Code::kInvalid, "{}: kv_page_size and total_pages must be 1 or more", path);
  }
  return {};
}

}  // namespace

std::string CacheDir() {
  if (std::string dir = Env("PIE_CACHE"); !dir.empty()) return dir;
  if (std::string dir = Env("XDG_CACHE_HOME"); !dir.empty()) return dir + "/pie";
  return InHome(".cache/pie");
}

std::string HomeDir() {
  std::string dir = Env("PIE_HOME");
  return dir.empty() ? InHome(".pie") : dir;
}

Result<Config> ReadConfig(const std::string& given) {
  Config config;
  config.runtime.cache_dir = CacheDir() + "/code";
  config.scratch_root = std::filesystem::temp_directory_path() / "pie-scratch";
  std::string path = given.empty() ? HomeDir() + "/config.toml" : given;
  if (!std::filesystem::exists(path)) {
    if (given.empty()) return config;
    return Fail(Code::kNotFound, "there is no config file {}", path);
  }
  toml::table root;
  try {
    root = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalid, "{}:{}: {}", path, error.source().begin.line, error.description());
  }
  Table runtime(root["runtime"].as_table(), path);
  wasm::Limits& limits = config.runtime.limits;
  runtime.Read("worker_threads", &config.runtime.worker_threads);
  runtime.Read("wasm_max_instances", &config.runtime.max_instances);
  runtime.Read("wasm_max_memory_mb", &limits.max_memory_bytes, 1 << 20);
  runtime.Read("max_output_mb", &limits.max_output_bytes, 1 << 20);
  runtime.Read("cpu_budget_ms", &limits.cpu_budget_ms);
  runtime.Read("allow_fs", &config.allow_fs);
  runtime.Read("fs_scratch_dir", &config.scratch_root);
  if (!runtime.problem().empty()) return Fail(Code::kInvalid, "{}", runtime.problem());
  if (config.runtime.max_instances == 0) {
    return Fail(Code::kInvalid, "{}: wasm_max_instances must be 1 or more", path);
  }
  const toml::array* models = root["model"].as_array();
  if (models != nullptr && !models->empty() && (*models)[0].is_table()) {
    PIE_RETURN_IF_ERROR(ReadModel(*(*models)[0].as_table(), path, &config));
  }
  return config;
}

Result<std::unique_ptr<host::Engine>> StartEngine(const Config& config) {
  if (config.driver != "dummy") {
    return Fail(
        Code::kUnavailable,
        "no model is configured{}; add --dummy to run on the dummy model, which needs no "
        "weights",
        config.driver.empty() ? "" : " (driver '" + config.driver + "' is not in this build)");
  }
  host::EngineOptions options;
  auto backend = MakeDummyBackend(config.dummy);
  options.models.push_back({MakeDummyModel(config.model_name, config.dummy.vocab_size),
                            std::make_unique<Scheduler>(std::move(backend), SchedulerOptions{})});
  options.runtime = config.runtime;
  options.seed = config.dummy.seed;
  options.allow_fs = config.allow_fs;
  options.scratch_root = config.scratch_root;
  return host::Engine::Start(std::move(options));
}

}  // namespace pie::cli
