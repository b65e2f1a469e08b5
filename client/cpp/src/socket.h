// Socket: a WebSocket, with or without TLS. Only socket.cc includes Beast, which adds seconds to a
// compilation. Everything runs on the executor of the coroutine that connects the socket.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "asio.h"

namespace pie_client {

struct Address {
  bool tls = false;
  std::string host, port, path;
};

// Every failure throws ConnectionLost with the reason. One Read and one Write may be in flight;
// they keep the socket alive.
class Socket {
 public:
  static asio::awaitable<std::shared_ptr<Socket>> Connect(std::string uri, std::string ca_file);
  virtual ~Socket() = default;

  // Returns the next frame, which is valid until the next Read.
  virtual asio::awaitable<std::string_view> Read() = 0;
  virtual asio::awaitable<void> Write(std::string_view frame) = 0;
  // Closes the connection and waits a while for the answer, which a pending Read receives.
  virtual asio::awaitable<void> Close() = 0;
  // The SHA-256 of the server's certificate; empty if the connection is not encrypted.
  virtual std::string CertificateHash() = 0;
  // Drops the connection without a close frame. A pending Read or Write fails.
  virtual void Abort() = 0;

 private:
  virtual asio::awaitable<void> Open(Address address) = 0;
};

}  // namespace pie_client
