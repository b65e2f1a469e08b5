// The MCP servers of config.toml: tables [mcp.<name>].
#pragma once

#include <toml++/toml.h>

#include <string>
#include <vector>

#include "base/result.h"
#include "host/mcp_pool.h"

namespace pie::cli {

Result<std::vector<host::McpServerConfig>> ReadMcpServers(const toml::table& root,
                                                          const std::string& path);

}  // namespace pie::cli
