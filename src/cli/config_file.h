// The config file as TOML: found, parsed, and checked for unknown keys. config.h and
// server_config.h read the values of their parts from it.
#pragma once

#include <toml++/toml.h>

#include <optional>
#include <string>

#include "base/result.h"

namespace pie::cli {

struct ConfigFile {
  std::string path;
  toml::table root;
};

// Reads the file `given`, or $PIE_HOME/config.toml if `given` is empty. Returns nullopt if that
// default file does not exist. Errors name the file, and the line if there is one.
Result<std::optional<ConfigFile>> ReadConfigFile(const std::string& given);

}  // namespace pie::cli
