// Socket: a WebSocket, with or without TLS. The only part that sees Beast, which costs seconds of
// compilation. Everything on the executor of the coroutine that connects it.
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

// All that fails throws ConnectionLost, with the reason in words. One Read and one Write at a time;
// whoever waits keeps the socket.
class Socket {
 public:
  static asio::awaitable<std::shared_ptr<Socket>> Connect(std::string uri, std::string ca_file);
  virtual ~Socket() = default;

  // The next frame; good until the next Read.
  virtual asio::awaitable<std::string_view> Read() = 0;
  virtual asio::awaitable<void> Write(std::string_view frame) = 0;
  // Says goodbye and waits a while for the answer, which a Read has to find.
  virtual asio::awaitable<void> Close() = 0;
  // Without a goodbye: a Read or Write that waits fails.
  virtual void Abort() = 0;

 private:
  virtual asio::awaitable<void> Open(Address address) = 0;
};

}  // namespace pie_client
