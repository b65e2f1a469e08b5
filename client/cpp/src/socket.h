// Socket: a WebSocket on a thread of its own. The only part that sees Beast, which costs seconds of
// compilation.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace pie_client {

class Socket {
 public:
  struct Handlers {
    // A frame, on the socket's thread. False: read no more until Resume.
    std::function<bool(std::string_view)> on_frame;
    // Once, when it is over, with the reason in words.
    std::function<void(std::string)> on_closed;
  };
  // Connects. Throws ConnectionLost.
  static std::unique_ptr<Socket> Open(const std::string& uri, const std::string& ca_file,
                                      Handlers handlers);
  // Waits for its thread; no handler runs afterwards.
  virtual ~Socket() = default;

  // Returns when the frame is written; what went wrong comes by `on_closed`.
  virtual void Send(std::string frame) = 0;
  virtual void Resume() = 0;
  // Says goodbye and waits a while for the answer. Not from a handler.
  virtual void Close() = 0;
};

}  // namespace pie_client
