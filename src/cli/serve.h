// pie serve: runs the engine as a server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pie::cli {

struct ServeOptions {
  std::string config;
  std::string host;  // empty: from the config
  std::optional<uint16_t> port;
  bool no_auth = false;
  bool debug = false;
  bool monitor = false;
  bool no_snapshot = false;
  std::string dummy;  // --dummy: empty if it is not given (config.h)
};

// Returns the exit code: 0 after a drain, 1 after an error, or 130 after a second Ctrl-C.
int Serve(const ServeOptions& options);

}  // namespace pie::cli
