#include "cli/config_keys.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace pie::cli {
namespace {

constexpr std::string_view kKeys[] = {
    "server.host",
    "server.port",
    "server.max_concurrent_processes",
    "server.max_connections",
    "server.drain_secs",
    "server.auth_timeout_secs",
    "server.ping_secs",
    "server.tls_cert",
    "server.tls_key",
    "server.routes",
    "server.page",
    "server.allowed_hosts",
    "server.allowed_origins",
    "server.trusted_apps",
    "auth.enabled",
    "telemetry.json_logs",
    "telemetry.log_level",
    "runtime.worker_threads",
    "runtime.wasm_max_instances",
    "runtime.wasm_max_memory_mb",
    "runtime.wasm_total_memory_mb",
    "runtime.memory_mb",
    "runtime.user_share_percent",
    "runtime.wasm_compiler",
    "runtime.compile_secs",
    "runtime.compile_memory_mb",
    "runtime.max_output_mb",
    "runtime.max_upload_mb",
    "runtime.cpu_budget_ms",
    "runtime.allow_fs",
    "runtime.fs_scratch_dir",
    "runtime.fs_scratch_quota_mb",
    "runtime.fs_scratch_total_mb",
    "runtime.fs_data_dir",
    "runtime.fs_data_quota_mb",
    "runtime.shared_topics",
    "runtime.snapshot_dir",
    "runtime.snapshot_quota_mb",
    "runtime.max_snapshots",
    "runtime.adapter_dir",
    "runtime.adapter_quota_mb",
    "runtime.adapter_memory_mb",
    "runtime.max_adapters",
    "runtime.prefix_cache",
    "runtime.prefix_cache_scope",
    "runtime.http.allow",
    "runtime.http.max_requests",
    "runtime.http.max_in_flight",
    "runtime.http.max_request_mb",
    "runtime.http.max_response_mb",
    "runtime.http.timeout_secs",
    "mcp.command",
    "mcp.args",
    "mcp.env",
    "mcp.url",
    "mcp.headers",
    "mcp.users",
    "mcp.timeout_secs",
    "model.name",
    "model.hf_repo",
    "model.draft",
    "model.driver.type",
    "model.driver.random_seed",
    "model.driver.vocabulary",
    "model.driver.options.kv_page_size",
    "model.driver.options.kv_cache_dtype",
    "model.driver.options.weight_dtype",
    "model.driver.options.total_pages",
    "model.driver.options.max_forward_tokens",
    "model.driver.options.max_forward_requests",
    "model.driver.options.max_positions",
    "model.driver.options.swap_pool_size",
    "model.driver.options.threads",
    "model.driver.options.asynchronous",
    "model.driver.options.gpu_mem_utilization",
    "model.driver.options.deterministic",
    "model.driver.options.script",
    "model.driver.device",
    "model.scheduler.batch_policy",
    "model.scheduler.request_timeout_secs",
    "model.scheduler.default_token_limit",
    "model.scheduler.default_endowment_pages",
    "model.scheduler.admission_oversubscription_factor",
    "model.scheduler.restore_pause_at_utilization",
    "model.scheduler.chains",
    "model.scheduler.swap_always",
    "model.scheduler.suspend_every_steps",
    // Published config files have these too. They change nothing in this build.
    "runtime.allow_network",
    "runtime.network_allowed_hosts",
    "model.driver.tensor_parallel_size",
    "model.driver.activation_dtype",
};

// Is `key` the name of a table, such as "model.driver"?
bool IsTable(std::string_view key) {
  return std::ranges::any_of(kKeys, [&](std::string_view known) {
    return known.size() > key.size() && known.starts_with(key) && known[key.size()] == '.';
  });
}

// The number of letters to add, remove or replace to turn `a` into `b`.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

std::string_view LastPart(std::string_view key) {
  return key.substr(key.rfind('.') + 1);  // npos + 1 is 0
}

// The known key, or table, that looks most like an unknown one.
std::string_view Nearest(std::string_view key) {
  std::vector<std::string_view> candidates(std::begin(kKeys), std::end(kKeys));
  for (std::string_view known : kKeys) {
    for (size_t dot = known.find('.'); dot != known.npos; dot = known.find('.', dot + 1)) {
      candidates.push_back(known.substr(0, dot));
    }
  }
  // A key with the right name in the wrong table is nearer than any misspelling.
  return *std::ranges::min_element(candidates, {}, [&](std::string_view known) {
    return LastPart(known) == LastPart(key) ? 0 : Distance(known, key);
  });
}

Status Unknown(std::string_view key, const toml::node& node, const std::string& path) {
  const auto line = node.source().begin.line;
  const std::string where = line == 0 ? path : fmt::format("{}:{}", path, line);
  return Fail(Code::kInvalid, "{}: unknown key {}; did you mean {}?", where, key, Nearest(key));
}

Status CheckTable(const toml::table& table, const std::string& prefix, const std::string& path) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (IsConfigKey(key)) continue;
    if (!IsTable(key)) return Unknown(key, node, path);
    // A value in place of a table is reported by the code that reads the table.
    if (node.is_table()) PIE_RETURN_IF_ERROR(CheckTable(*node.as_table(), key + ".", path));
  }
  return {};
}

}  // namespace

bool IsConfigKey(std::string_view key) {
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

Status CheckConfigKeys(const toml::table& root, const std::string& path) {
  for (const auto& [name, node] : root) {
    if (!IsTable(name.str())) return Unknown(name.str(), node, path);
    const std::string prefix = std::string(name.str()) + ".";
    const auto check_entry = [&](const toml::node& entry) -> Status {
      return entry.is_table() ? CheckTable(*entry.as_table(), prefix, path) : Status();
    };
    if (name.str() != "model" && name.str() != "mcp") {
      if (node.is_table()) {
        PIE_RETURN_IF_ERROR(CheckTable(*node.as_table(), prefix, path));
      }
    } else if (const toml::array* models = node.as_array()) {  // [[model]]
      for (const toml::node& model : *models) PIE_RETURN_IF_ERROR(check_entry(model));
    } else if (const toml::table* named = node.as_table()) {  // [model.<name>], [mcp.<name>]
      for (const auto& [_, entry] : *named) PIE_RETURN_IF_ERROR(check_entry(entry));
    }
  }
  return {};
}

}  // namespace pie::cli
