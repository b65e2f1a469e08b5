// pie serve: the engine behind a port.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pie::cli {

struct ServeOptions {
  std::string config;
  std::string host;  // empty = the config's
  std::optional<uint16_t> port;
  bool no_auth = false;
  bool debug = false;
  bool monitor = false;
  bool no_snapshot = false;
  bool dummy = false;
};

// The exit code: 0 after a drain, 1, or 130 after a second Ctrl-C.
int Serve(const ServeOptions& options);

}  // namespace pie::cli
