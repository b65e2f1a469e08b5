// The keys that a config file may have. A key that is not among them is an error: a misspelt
// `auth.enabled` would otherwise leave the server open.
#pragma once

#include <toml++/toml.h>

#include <string>
#include <string_view>

#include "base/result.h"

namespace pie::cli {

// `key` is dotted, such as "server.port". Keys of all models begin with "model.".
bool IsConfigKey(std::string_view key);

// Finds the first key of the file that is unknown, and names the nearest known one.
Status CheckConfigKeys(const toml::table& root, const std::string& path);

}  // namespace pie::cli
