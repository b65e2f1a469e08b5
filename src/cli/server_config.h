// The server's part of the config file: [server], [auth] and [telemetry].
#pragma once

#include <string>

#include "base/result.h"
#include "server/log.h"
#include "server/server.h"

namespace pie::cli {

struct ServerConfig {
  // The OpenAI API is an inferlet; `server.routes` in the config replaces this table.
  server::ServerOptions server{.routes = {{"/v1", "openai"}}};
  bool auth = false;
  bool page = true;  // a page for browsers at the root
  bool json_logs = false;
  std::string log_level = "info";
};

// `path` is as for ReadConfig.
Result<ServerConfig> ReadServerConfig(const std::string& path);

}  // namespace pie::cli
