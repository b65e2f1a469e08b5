// Types that the blocking and the asynchronous client (client.h and async.h) share.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "pie_client/key.h"

namespace pie_client {

// How a client connects.
struct Options {
  // The client authenticates with this name when it connects. Without it, call Authenticate.
  std::optional<std::string> username;
  // The key that proves the username, if the server asks for a proof.
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
  // Its id, the name and version of its program, and its user.
  std::string process_id, inferlet, username;
  // Whether a client is attached to it.
  bool attached = false;
  // The port on which a daemon answers; processes that are no daemons have none.
  std::optional<uint16_t> port = {};
};

}  // namespace pie_client
