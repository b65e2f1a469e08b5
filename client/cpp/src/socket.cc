#include "socket.h"

#include <utility>
// clang-format off
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
// clang-format on
#include <boost/beast/core.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <chrono>
#include <deque>
#include <future>
#include <optional>
#include <thread>

#include "bounds.h"
#include "pie_client/errors.h"

namespace pie_client {
namespace {

namespace beast = boost::beast;
namespace ws = beast::websocket;
namespace asio = boost::asio;
namespace ssl = asio::ssl;
using beast::error_code;
using tcp = asio::ip::tcp;
using Plain = beast::tcp_stream;
using Tls = beast::ssl_stream<beast::tcp_stream>;

constexpr auto kOpen = std::chrono::seconds(20);
constexpr auto kClose = std::chrono::seconds(3);
constexpr auto kIdle = std::chrono::seconds(60);

struct Address {
  bool tls = false;
  std::string host, port, path;
};

Address Parse(const std::string& uri) {
  Address address;
  std::string_view rest = uri;
  if (rest.starts_with("wss://")) {
    address.tls = true;
    rest.remove_prefix(6);
  } else if (rest.starts_with("ws://")) {
    rest.remove_prefix(5);
  } else {
    throw ConnectionLost("'" + uri + "' is no address: give ws://HOST:PORT or wss://…");
  }
  const size_t slash = rest.find('/');
  address.path = slash == std::string_view::npos ? "/" : rest.substr(slash);
  rest = rest.substr(0, slash);
  const size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string_view::npos && rest.find(']', colon) == rest.npos;
  address.host = rest.substr(0, has_port ? colon : rest.npos);
  address.port = has_port ? std::string(rest.substr(colon + 1)) : address.tls ? "443" : "80";
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  return address;
}

template <class Stream>
class SocketOn final : public Socket {
 public:
  template <class... Args>
  explicit SocketOn(Handlers handlers, Args&&... args)
      : handlers_(std::move(handlers)), ws_(io_, std::forward<Args>(args)...) {}

  ~SocketOn() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    FailWriters();
  }

  void Connect(const Address& address) {
    tcp::resolver resolver(io_);
    std::optional<error_code> done;
    auto finish = [&](error_code error) { done = error; };
    resolver.async_resolve(
        address.host, address.port,
        [&](error_code error, const tcp::resolver::results_type& found) {
          if (error) return finish(error);
          beast::get_lowest_layer(ws_).async_connect(
              found, [&](error_code connected, const tcp::endpoint&) {
                if (connected) return finish(connected);
                beast::get_lowest_layer(ws_).socket().set_option(tcp::no_delay(true));
                Secure(address, finish);
              });
        });
    io_.run_for(kOpen);
    if (!done || *done) {
      throw ConnectionLost(done ? done->message() : "no answer");
    }
    io_.restart();
    ws_.read_message_max(kMaxIncomingBytes);
    ws_.binary(true);
    work_.emplace(io_.get_executor());
    Read();
    thread_ = std::thread([this] { io_.run(); });
  }

  void Send(std::string frame) override {
    auto written = std::make_shared<std::promise<void>>();
    auto future = written->get_future();
    asio::post(io_, [this, frame = std::move(frame), written]() mutable {
      if (closed_) return written->set_value();
      writes_.emplace_back(std::move(frame), std::move(written));
      if (writes_.size() == 1) Write();
    });
    // A loop that has stopped runs nothing any more.
    while (!io_.stopped() &&
           future.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
    }
  }

  void Resume() override {
    asio::post(io_, [this] {
      if (std::exchange(paused_, false)) Read();
    });
  }

  void Close() override {
    auto closed = std::make_shared<std::promise<void>>();
    auto future = closed->get_future();
    asio::post(io_, [this, closed] {
      if (closed_) return closed->set_value();
      if (std::exchange(paused_, false)) Read();  // the goodbye of the other side is to be read
      ws_.async_close(ws::close_code::normal, [closed](error_code) { closed->set_value(); });
    });
    future.wait_for(kClose);
    io_.stop();
  }

 private:
  template <class Finish>
  void Secure(const Address& address, Finish finish) {
    if constexpr (std::is_same_v<Stream, Tls>) {
      SSL_set_tlsext_host_name(ws_.next_layer().native_handle(), address.host.c_str());
      ws_.next_layer().set_verify_callback(ssl::host_name_verification(address.host));
      ws_.next_layer().async_handshake(ssl::stream_base::client,
                                       [this, &address, finish](error_code error) {
                                         if (error) return finish(error);
                                         Shake(address, finish);
                                       });
    } else {
      Shake(address, finish);
    }
  }

  template <class Finish>
  void Shake(const Address& address, Finish finish) {
    beast::get_lowest_layer(ws_).expires_never();
    ws_.set_option(ws::stream_base::timeout{kOpen, kIdle, true});
    ws_.async_handshake(address.host + ":" + address.port, address.path, finish);
  }

  void Read() {
    ws_.async_read(buffer_, [this](error_code error, size_t) {
      if (error) return Over(error);
      const auto data = buffer_.data();
      const bool more = handlers_.on_frame({static_cast<const char*>(data.data()), data.size()});
      buffer_.consume(buffer_.size());
      if (buffer_.capacity() > kKeptBufferBytes) buffer_.shrink_to_fit();
      if (more) {
        Read();
      } else {
        paused_ = true;
      }
    });
  }

  void Write() {
    ws_.async_write(asio::buffer(writes_.front().first), [this](error_code error, size_t) {
      if (error) return Over(error);
      writes_.front().second->set_value();
      writes_.pop_front();
      if (!writes_.empty()) Write();
    });
  }

  void Over(error_code error) {
    if (std::exchange(closed_, true)) return;
    const auto& said = ws_.reason();
    std::string text = "the connection to the server broke: " + error.message();
    if (error == ws::error::closed) {
      const std::string reason = said.reason.empty() ? "no reason given" : said.reason.c_str();
      text = "the server closed the connection: " + reason + " (" + std::to_string(said.code) + ")";
    }
    FailWriters();
    handlers_.on_closed(text);
    beast::get_lowest_layer(ws_).close();
  }

  void FailWriters() {
    for (auto& [frame, written] : std::exchange(writes_, {})) written->set_value();
  }

  static constexpr size_t kKeptBufferBytes = 1 << 20;
  const Handlers handlers_;
  asio::io_context io_{1};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work_;
  ws::stream<Stream> ws_;
  beast::flat_buffer buffer_;
  std::deque<std::pair<std::string, std::shared_ptr<std::promise<void>>>> writes_;
  bool paused_ = false;
  bool closed_ = false;
  std::thread thread_;
};

// A TLS socket and what it needs.
class TlsSocket final : public Socket {
 public:
  TlsSocket(const std::string& ca_file, Handlers handlers) : context_(Trust(ca_file)) {
    socket_ = std::make_unique<SocketOn<Tls>>(std::move(handlers), context_);
  }
  void Connect(const Address& address) { socket_->Connect(address); }
  void Send(std::string frame) override { socket_->Send(std::move(frame)); }
  void Resume() override { socket_->Resume(); }
  void Close() override { socket_->Close(); }

 private:
  static ssl::context Trust(const std::string& ca_file) {
    ssl::context context(ssl::context::tls_client);
    context.set_verify_mode(ssl::verify_peer);
    if (ca_file.empty()) {
      context.set_default_verify_paths();
    } else {
      context.load_verify_file(ca_file);
    }
    return context;
  }

  ssl::context context_;
  std::unique_ptr<SocketOn<Tls>> socket_;
};

}  // namespace

std::unique_ptr<Socket> Socket::Open(const std::string& uri, const std::string& ca_file,
                                     Handlers handlers) {
  const Address address = Parse(uri);
  try {
    if (address.tls) {
      auto socket = std::make_unique<TlsSocket>(ca_file, std::move(handlers));
      socket->Connect(address);
      return socket;
    }
    auto socket = std::make_unique<SocketOn<Plain>>(std::move(handlers));
    socket->Connect(address);
    return socket;
  } catch (const std::exception& error) {
    throw ConnectionLost("cannot connect to " + uri + ": " + error.what());
  }
}

}  // namespace pie_client
