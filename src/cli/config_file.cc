#include "cli/config_file.h"

#include <filesystem>

#include "cli/config.h"
#include "cli/config_keys.h"

namespace pie::cli {

Result<std::optional<ConfigFile>> ReadConfigFile(const std::string& given) {
  ConfigFile file{.path = given.empty() ? HomeDir() + "/config.toml" : given, .root = {}};
  std::error_code ignored;
  if (!std::filesystem::exists(file.path, ignored)) {
    if (given.empty()) return std::nullopt;
    return Fail(Code::kNotFound, "the config file {} does not exist", file.path);
  }
  if (std::filesystem::is_directory(file.path, ignored)) {
    return Fail(Code::kInvalid, "{} is a folder; name the config file in it", file.path);
  }
  try {
    file.root = toml::parse_file(file.path);
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalid, "{}:{}: {}", file.path, error.source().begin.line,
                error.description());
  }
  PIE_RETURN_IF_ERROR(CheckConfigKeys(file.root, file.path));
  return file;
}

}  // namespace pie::cli
