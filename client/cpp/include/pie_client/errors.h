// The errors of this library. Every error with a cause outside the library is an Error.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace pie_client {

// The base of all errors here. `what()` is a sentence for a person.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The server refused a request. The text is the server's.
struct ServerError : Error {
  using Error::Error;
};
// The server did not accept the username or its proof.
struct AuthError : ServerError {
  using ServerError::ServerError;
};
// There is no connection, or it broke. Client::Reconnect continues where it stopped.
struct ConnectionLost : Error {
  using Error::Error;
};
// Nothing arrived within the time-out. The connection still works.
struct RequestTimeout : Error {
  using Error::Error;
};
// The process ended with an Error event. The text is the process's.
struct ProcessError : Error {
  using Error::Error;
};
// The last event of the process was taken already; no further event will arrive.
struct ProcessEnded : Error {
  using Error::Error;
};
// A received file does not match its hash.
struct IntegrityError : Error {
  using Error::Error;
};
// The message is too large for the server. Nothing was sent.
struct TooLarge : Error {
  using Error::Error;
};
// An MCP server of this client did not start, or its program has ended.
struct McpError : Error {
  // Made by the client; programs catch it.
  McpError(int the_code, const std::string& text, std::string the_data = "")
      : Error(text), code(the_code), data(std::move(the_data)) {}
  int code;          // of JSON-RPC
  std::string data;  // JSON that the server sent with the error, or empty
};
// The private key cannot be used.
struct KeyError : Error {
  using Error::Error;
};

}  // namespace pie_client
