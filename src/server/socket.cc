#include "server/socket.h"

#include <boost/asio/dispatch.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/version.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <optional>

#include "base/utf8.h"
#include "server/connection.h"
#include "server/http.h"

namespace pie::server {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace ws = beast::websocket;
namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using Plain = beast::tcp_stream;
using Tls = beast::ssl_stream<beast::tcp_stream>;

constexpr size_t kKeptBufferBytes = 64ull << 10;  // a larger buffer is freed after each message
constexpr size_t kMostReasonBytes = 120;          // limit of a close frame

template <class Stream>
class SocketOn final : public Socket,
                       public Wire,
                       public std::enable_shared_from_this<SocketOn<Stream>> {
 public:
  template <class... Args>
  SocketOn(Service& service, Sockets& all, std::string peer, Args&&... args)
      : service_(service), all_(all), peer_(std::move(peer)), ws_(std::forward<Args>(args)...) {
    all_.insert(this);
    ++service_.connections;
  }
  ~SocketOn() override {
    if (connection_) connection_->OnClosed();
    all_.erase(this);
    --service_.connections;
  }

  void Start() override {
    Lowest().expires_after(std::chrono::seconds(service_.limits.auth_timeout_secs));
    if constexpr (std::is_same_v<Stream, Tls>) {
      ws_.next_layer().async_handshake(asio::ssl::stream_base::server,
                                       [self = this->shared_from_this()](beast::error_code error) {
                                         if (!error) self->ReadHttp();
                                       });
    } else {
      ReadHttp();
    }
  }

  bool unknown() const override { return !connection_ || !connection_->known(); }
  void CloseGently(const std::string& reason) override { Close(reason); }
  void CloseAtOnce() override {
    beast::error_code ignored;
    Lowest().socket().close(ignored);
  }

  // Wire
  void Ready() override {
    Pump();
    if (paused_ && connection_ && connection_->Reads() && !closing_) {
      paused_ = false;
      Read();
    }
  }
  void Close(std::string_view reason) override {
    if (closing_) return;
    closing_ = true;
    reason_ = ToValidUtf8(reason).substr(0, kMostReasonBytes);
    if (!connection_) return CloseAtOnce();
    Pump();
  }

 private:
  beast::tcp_stream& Lowest() { return beast::get_lowest_layer(ws_); }

  void ReadHttp() {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(service_.limits.max_http_header_bytes));
    parser_->body_limit(service_.limits.max_http_header_bytes);
    http::async_read(ws_.next_layer(), buffer_, *parser_,
                     [self = this->shared_from_this()](beast::error_code error, size_t) {
                       if (!error) self->OnHttp();
                     });
  }

  void OnHttp() {
    auto request = parser_->release();
    parser_.reset();
    if (!ws::is_upgrade(request)) return AnswerPlainly(request, {});
    if (!MayUpgrade(service_, Text(request[http::field::origin]),
                    Text(request[http::field::host]))) {
      return AnswerPlainly(request, HttpAnswer{403, "text/plain; charset=utf-8",
                                               "web pages of other origins may not connect\n"});
    }
    Lowest().expires_never();
    ws::stream_base::timeout timeouts;
    timeouts.handshake_timeout = std::chrono::seconds(service_.limits.auth_timeout_secs);
    timeouts.idle_timeout =
        std::chrono::seconds(service_.limits.idle_ping_secs + service_.limits.pong_timeout_secs);
    timeouts.keep_alive_pings = true;
    ws_.set_option(timeouts);
    ws_.set_option(ws::stream_base::decorator([](ws::response_type& response) {
      response.set(http::field::server, "pie/" PIE_VERSION);
    }));
    ws_.read_message_max(service_.limits.max_frame_bytes);
    ws_.binary(true);
    ws_.auto_fragment(false);
    beast::error_code ignored;
    Lowest().socket().set_option(tcp::no_delay(true), ignored);
    ws_.async_accept(request, [self = this->shared_from_this()](beast::error_code error) {
      if (!error) self->OnAccepted();
    });
  }

  static std::string_view Text(beast::string_view view) { return {view.data(), view.size()}; }

  template <class Request>
  void AnswerPlainly(const Request& request, std::optional<HttpAnswer> given) {
    const HttpAnswer answer =
        given ? *std::move(given)
              : AnswerHttp(service_, Text(request.method_string()), Text(request.target()),
                           Text(request[http::field::authorization]));
    auto response = std::make_shared<http::response<http::string_body>>(
        static_cast<http::status>(answer.status), request.version());
    response->set(http::field::server, "pie/" PIE_VERSION);
    response->set(http::field::content_type, answer.type);
    response->keep_alive(request.keep_alive());
    const bool head = request.method() == http::verb::head;
    if (!head) response->body() = answer.body;
    response->prepare_payload();
    Lowest().expires_after(std::chrono::seconds(service_.limits.pong_timeout_secs));
    http::async_write(ws_.next_layer(), *response,
                      [self = this->shared_from_this(), response](beast::error_code error, size_t) {
                        if (error || response->need_eof()) return self->CloseAtOnce();
                        self->ReadHttp();
                      });
  }

  void OnAccepted() {
    connection_ = std::make_shared<Connection>(service_, this, peer_);
    Read();
  }

  void Read() {
    ws_.async_read(buffer_, [self = this->shared_from_this()](beast::error_code error, size_t) {
      self->OnRead(error);
    });
  }

  void OnRead(beast::error_code error) {
    if (error) return End(error);
    if (closing_) return;
    if (!ws_.got_binary()) return Close("messages must be binary frames of MessagePack");
    const auto data = buffer_.cdata();
    connection_->OnFrame({static_cast<const char*>(data.data()), data.size()});
    buffer_.consume(data.size());
    if (buffer_.capacity() > kKeptBufferBytes) buffer_ = beast::flat_buffer();
    if (closing_ && !closed_) {
      // Keeps reading until the client's own close arrives or the time is over.
      return;
    }
    if (connection_->Reads()) {
      Read();
    } else {
      paused_ = true;
    }
  }

  void Pump() {
    if (writing_ || closed_ || !connection_) return;
    if (auto frame = connection_->Next()) {
      frame_ = *std::move(frame);
      writing_ = true;
      ws_.async_write(asio::buffer(frame_),
                      [self = this->shared_from_this()](beast::error_code error, size_t) {
                        self->writing_ = false;
                        if (error) return self->End(error);
                        self->connection_->Sent();
                        self->Ready();
                      });
      return;
    }
    if (!closing_) return;
    closed_ = true;
    ws_.async_close(ws::close_reason(ws::close_code::policy_error, reason_),
                    [self = this->shared_from_this()](beast::error_code) {});
  }

  void End(beast::error_code error) {
    if (ended_) return;
    ended_ = true;
    closed_ = true;
    if (service_.log.Shows(Log::Level::kDebug)) {
      service_.log.Debug(
          "client disconnected",
          {{"peer", peer_}, {"user", connection_->username()}, {"why", error.message()}});
    }
    connection_->OnClosed();
    CloseAtOnce();
  }

  Service& service_;
  Sockets& all_;
  const std::string peer_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  ws::stream<Stream> ws_;
  std::shared_ptr<Connection> connection_;
  std::string frame_, reason_;
  bool writing_ = false, paused_ = false;
  bool closing_ = false;  // close once all frames are sent
  bool closed_ = false;   // the close frame is being sent, or the socket is gone
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<Socket> MakeSocket(tcp::socket socket, asio::ssl::context* tls, Service& service,
                                   Sockets& all) {
  boost::system::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  std::string peer =
      error ? "?" : fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
  if (tls != nullptr) {
    return std::make_shared<SocketOn<Tls>>(service, all, std::move(peer), std::move(socket), *tls);
  }
  return std::make_shared<SocketOn<Plain>>(service, all, std::move(peer), std::move(socket));
}

}  // namespace pie::server
