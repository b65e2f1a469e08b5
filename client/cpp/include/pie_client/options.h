// What both faces of the client, client.h and async.h, take and give.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "pie_client/key.h"

namespace pie_client {

struct Options {
  // Who this is: said as it connects. Without it, call Authenticate.
  std::optional<std::string> username;
  std::optional<ParsedPrivateKey> key;
  // In place of a name: the token that a server leaves for its own user.
  std::optional<std::string> token;
  // For each request.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  // A file of certificates to believe, if the server's is of no public authority.
  std::string ca_file;
};

// A process that runs.
struct ProcessInfo {
  std::string process_id, inferlet, username;
  bool attached = false;
};

}  // namespace pie_client
