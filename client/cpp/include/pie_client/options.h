// Types that the blocking and the asynchronous client (client.h and async.h) share.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "pie_client/key.h"

namespace pie_client {

struct Options {
  // The client authenticates with this name when it connects. Without it, call Authenticate.
  std::optional<std::string> username;
  std::optional<ParsedPrivateKey> key;
  // The token in the server's file `server-<port>.token`, instead of a username.
  std::optional<std::string> token;
  // The time-out of each request.
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  // A file with the certificate of the server's authority, if it is not a public one.
  std::string ca_file;
};

// A running process.
struct ProcessInfo {
  std::string process_id, inferlet, username;
  bool attached = false;
};

}  // namespace pie_client
