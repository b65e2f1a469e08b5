#include "cli/config_command.h"

#include <fmt/format.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "backend/cuda/cuda_backend.h"
#include "base/whole_file.h"
#include "cli/config.h"
#include "cli/config_keys.h"
#include "cli/server_config.h"
#include "cli/terminal.h"

namespace pie::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemplate =
    R"(# Pie's configuration. Values that are not set here have their defaults.

[server]
host = "127.0.0.1"            # 127.0.0.1: only this machine can connect. Others need auth
port = 8080
# max_concurrent_processes = 1000
# tls_cert = "/path/cert.pem"
# tls_key = "/path/key.pem"

[auth]
enabled = false               # true: clients must authenticate; add keys with `pie auth add`

[telemetry]
log_level = "info"            # debug, info, warning, error
json_logs = false

[runtime]
wasm_max_instances = 1000
wasm_max_memory_mb = 1024
max_upload_mb = 256
allow_fs = true               # processes have the folders /scratch and /data

[[model]]                     # the first model is the default; more may follow
name = "default"
# hf_repo = "/path/model.gguf"  # or a Hugging Face folder; default: the model of `make setup`

[model.driver]
type = "auto"                 # auto, cpu, cuda, dummy; auto: the GPU if there is one, else the CPU
)";

std::string PathOf(const std::string& given) {
  return given.empty() ? HomeDir() + "/config.toml" : given;
}

Status Write(const std::string& path, std::string_view text) {
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  return WriteWhole(path, text);
}

Status Init(bool overwrite) {
  const std::string path = PathOf("");
  std::error_code ignored;
  if (fs::exists(path, ignored) && !overwrite) {
    return Fail(Code::kInvalid, "{} already exists; use --force to replace it", path);
  }
  PIE_RETURN_IF_ERROR(Write(path, kTemplate));
  fmt::print("wrote {}\n", path);
  return {};
}

Status Show(const std::string& given) {
  const std::string path = PathOf(given);
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    if (!given.empty()) return Fail(Code::kNotFound, "the config file {} does not exist", path);
    fmt::print("# {} does not exist. These are the defaults (`pie config init` writes them):\n{}",
               path, kTemplate);
    return {};
  }
  fmt::print("# {}\n{}", path, std::string(std::istreambuf_iterator<char>(file), {}));
  return {};
}

Status Check(const std::string& given) {
  const auto config = PIE_TRY(ReadConfig(given));
  const auto server = PIE_TRY(ReadServerConfig(given));
  fmt::print("{} is valid: host {}, port {}, authentication {}\n", PathOf(given),
             server.server.host, server.server.port, server.auth ? "on" : "off");
  return {};
}

// Parses a value from the command line as TOML, or as a text if that fails.
toml::table Parse(const std::string& value) {
  try {
    return toml::parse("value = " + value);
  } catch (const toml::parse_error&) {
    return toml::table{{"value", value}};
  }
}

Result<toml::node*> Descend(toml::node* node, std::string_view part, std::string_view key) {
  if (toml::array* array = node->as_array()) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (error != std::errc() || end != part.data() + part.size() || index >= array->size()) {
      return Fail(Code::kInvalid,
                  "{}: '{}' is not the number of an entry; there are {}, counted from 0", key, part,
                  array->size());
    }
    return array->get(index);
  }
  toml::table* table = node->as_table();
  if (table == nullptr) return Fail(Code::kInvalid, "{}: '{}' is not inside a table", key, part);
  if (!table->contains(part)) table->insert(part, toml::table{});
  return table->get(part);
}

Status Set(const std::string& given, const std::string& key, const std::string& value) {
  const std::string path = PathOf(given);
  toml::table root;
  std::error_code ignored;
  try {
    if (fs::exists(path, ignored)) root = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalid, "{}:{}: {}", path, error.source().begin.line, error.description());
  }
  toml::node* node = &root;
  std::string_view left = key;
  for (size_t dot = left.find('.'); dot != std::string_view::npos; dot = left.find('.')) {
    node = PIE_TRY(Descend(node, left.substr(0, dot), key));
    left.remove_prefix(dot + 1);
  }
  toml::table* table = node->as_table();
  if (table == nullptr || left.empty()) {
    return Fail(Code::kInvalid,
                "'{}' is not the key of a value; keys are like server.port or model.0.hf_repo",
                key);
  }
  Parse(value).get("value")->visit([&](auto& typed) { table->insert_or_assign(left, typed); });
  PIE_RETURN_IF_ERROR(CheckConfigKeys(root, path));
  std::ostringstream text;
  text << root << "\n";
  // The new file is validated before it replaces the old one.
  const std::string trial = fmt::format("{}.{}.trial", path, getpid());
  PIE_RETURN_IF_ERROR(Write(trial, text.str()));
  const auto config = ReadConfig(trial);
  const auto server = ReadServerConfig(trial);
  fs::remove(trial, ignored);
  if (!config) return std::unexpected(config.error());
  if (!server) return std::unexpected(server.error());
  PIE_RETURN_IF_ERROR(Write(path, text.str()));
  fmt::print("{} = {}\n", key, value);
  return {};
}

}  // namespace

int InitConfig(bool overwrite) {
  return ExitCode(Init(overwrite));
}

int ShowConfig(const std::string& path) {
  return ExitCode(Show(path));
}

int SetConfig(const std::string& path, const std::string& key, const std::string& value) {
  return ExitCode(Set(path, key, value));
}

int CheckConfig(const std::string& path) {
  return ExitCode(Check(path));
}

int ListDrivers() {
  fmt::print("cpu     runs GGUF files and Hugging Face folders on this machine's processor\n");
  fmt::print("dummy   needs no weights and writes deterministic gibberish, for tests\n");
  const CudaStatus cuda = FindCudaDevices();
  if (cuda.devices.empty()) {
    fmt::print("cuda    not available: {}\n", cuda.problem);
  }
  for (const std::string& device : cuda.devices) {
    fmt::print("cuda    runs GGUF files and Hugging Face folders on {}\n", device);
  }
  return 0;
}

}  // namespace pie::cli
