// What can go wrong. Everything that this library throws for a reason outside it is an Error.
#pragma once

#include <stdexcept>

namespace pie_client {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The server answered a request with a refusal; the text is the server's.
struct ServerError : Error {
  using Error::Error;
};
// The server does not believe who this client says it is.
struct AuthError : ServerError {
  using ServerError::ServerError;
};
// There is no connection, or it broke. Client::Reconnect takes up where it ended.
struct ConnectionLost : Error {
  using Error::Error;
};
// Nothing came within the time that was given. The connection is still good.
struct RequestTimeout : Error {
  using Error::Error;
};
// The process ended with an Error event; the text is its own.
struct ProcessError : Error {
  using Error::Error;
};
// The last word of the process was taken already: there is nothing more to wait for.
struct ProcessEnded : Error {
  using Error::Error;
};
// A file arrived that is not what its hash says.
struct IntegrityError : Error {
  using Error::Error;
};
// A message of this size would be refused; nothing was sent.
struct TooLarge : Error {
  using Error::Error;
};
// This is no private key that can be used.
struct KeyError : Error {
  using Error::Error;
};

}  // namespace pie_client
