// TlsTcpStream: the TCP stream below TLS. Strangers can ask for handshakes, and each costs
// milliseconds of cryptography. So during a handshake the stream hands the bytes it has read to a
// work queue, where the handshake goes on; peers' addresses take turns there. All operations of the
// socket itself stay on the IO thread. After the handshake it is an ordinary stream.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/websocket/teardown.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/work_queue.h"
#include "server/tcp_stream.h"

namespace pie::server {

class TlsTcpStream : public TcpStream {
 public:
  using Base = TcpStream;
  using ErrorCode = boost::beast::error_code;

  explicit TlsTcpStream(boost::asio::ip::tcp::socket&& socket) : Base(std::move(socket)) {}

  // IO thread. Between the two calls, completions of reads run on the threads of `queue`; the
  // handler of the handshake may run on either thread. The work takes turns by `address`.
  void BeginHandshake(WorkQueue& queue, std::string address) {
    queue_ = &queue;
    address_ = std::move(address);
  }
  void EndHandshake() { queue_ = nullptr; }

  // Any thread during a handshake, else the IO thread. The handler keeps this object alive.
  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if constexpr (IsOfHandshake<Handler>()) {
      if (queue_ != nullptr) return ReadForHandshake(buffers, Keep(std::forward<Handler>(handler)));
    }
    Base::async_read_some(buffers, std::forward<Handler>(handler));
  }

  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if constexpr (IsOfHandshake<Handler>()) {
      if (queue_ != nullptr) {
        return WriteForHandshake(buffers, Keep(std::forward<Handler>(handler)));
      }
    }
    Base::async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  // Whether the handler is that of a part of a handshake, whose type names asio's `handshake_op`.
  // The code for handshakes would be compiled for every other type of handler, too, which takes
  // half a minute.
  template <class Handler>
  static consteval bool IsOfHandshake() {
    return std::string_view(__PRETTY_FUNCTION__).find("handshake_op") != std::string_view::npos;
  }

  template <class Buffers, class Handler>
  void ReadForHandshake(const Buffers& buffers, std::unique_ptr<Handler> kept) {
    boost::asio::post(get_executor(), [this, buffers, kept = std::move(kept)]() mutable {
      Base::async_read_some(buffers,
                            [this, kept = std::move(kept)](ErrorCode error, size_t bytes) mutable {
                              GoOn(std::move(kept), error, bytes);
                            });
    });
  }

  template <class Buffers, class Handler>
  void WriteForHandshake(const Buffers& buffers, std::unique_ptr<Handler> kept) {
    boost::asio::post(get_executor(), [this, buffers, kept = std::move(kept)]() mutable {
      Base::async_write_some(buffers,
                             [kept = std::move(kept)](ErrorCode error, size_t bytes) mutable {
                               Call(std::move(kept), error, bytes);
                             });
    });
  }

  template <class Handler>
  static auto Keep(Handler&& handler) {
    return std::make_unique<std::decay_t<Handler>>(std::forward<Handler>(handler));
  }

  template <class Handler>
  static void Call(std::unique_ptr<Handler> handler, ErrorCode error, size_t bytes) {
    (*handler)(error, bytes);
  }

  // Lets the handshake go on with the bytes that were read.
  template <class Handler>
  void GoOn(std::unique_ptr<Handler> handler, ErrorCode error, size_t bytes) {
    if (error) return Call(std::move(handler), error, bytes);
    // The queue destroys a job that it refuses, but the handler has to be called.
    auto shared = std::make_shared<std::unique_ptr<Handler>>(std::move(handler));
    const bool queued = queue_->Push(address_, [shared, bytes] {
      YieldToOthers();
      Call(std::move(*shared), {}, bytes);
    });
    if (!queued) Call(std::move(*shared), boost::asio::error::no_buffer_space, 0);
  }

  // Lowers the priority of this thread below that of inference, once.
  static void YieldToOthers() {
    constexpr int kNice = 10;
    static thread_local const int done = setpriority(PRIO_PROCESS, gettid(), kNice);
    static_cast<void>(done);
  }

  WorkQueue* queue_ = nullptr;  // null: no handshake is under way
  std::string address_;
};

// Ends the stream below TLS when a WebSocket is closed. Beast finds this function by the type of
// the stream, and has one for its own type only.
template <class Handler>
void async_teardown(boost::beast::role_type role, TlsTcpStream& stream, Handler&& handler) {
  boost::beast::async_teardown(role, static_cast<TcpStream&>(stream),
                               std::forward<Handler>(handler));
}

}  // namespace pie::server
