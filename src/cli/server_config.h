// What `pie serve` reads of the config file beside the engine's part: [server], [auth],
// [telemetry].
#pragma once

#include <string>

#include "base/result.h"
#include "server/log.h"
#include "server/server.h"

namespace pie::cli {

struct ServerConfig {
  server::ServerOptions server;
  bool auth = false;
  bool json_logs = false;
  std::string log_level = "info";
};

// `path` as for ReadConfig.
Result<ServerConfig> ReadServerConfig(const std::string& path);

}  // namespace pie::cli
