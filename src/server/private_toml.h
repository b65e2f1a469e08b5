// Reads TOML files that only their owner may read or write: keys of users and hashes of API tokens.
#pragma once

#include <toml++/toml.h>

#include <string>

#include "base/result.h"

namespace pie::server {

// Returns the tables of a file; none if there is no such file. Fails if other users of the machine
// can read or write it.
Result<toml::table> ReadPrivateToml(const std::string& path);

}  // namespace pie::server
