#include "server/socket.h"

#include <algorithm>
#include <boost/asio/dispatch.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/version.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <limits>
#include <optional>

#include "base/utf8.h"
#include "server/connection.h"
#include "server/http.h"
#include "server/http_serving.h"
#include "server/tcp_stream.h"
#include "server/tls_stream.h"

namespace pie::server {
namespace {

namespace ws = beast::websocket;
using tcp = asio::ip::tcp;
using Plain = TcpStream;
using Tls = beast::ssl_stream<TlsTcpStream>;

constexpr size_t kKeptBufferBytes = 8ull << 10;  // a larger buffer is freed after each message
constexpr size_t kHttpBufferBytes = 128ull << 10;
constexpr size_t kReadBytes = 256ull << 10;    // of a message at a time
constexpr size_t kDroppedBytes = 64ull << 10;  // of a body that nobody wants, at a time
constexpr const char* kApiKey = "x-api-key";
constexpr size_t kMostReasonBytes = 120;    // limit of a close frame
constexpr size_t kMostControlFrames = 100;  // of a client within a second
// How many bytes the stream may read for one part of a message, and from a client that has been
// sent away.
constexpr size_t kAllowedForPart = 2 * kReadBytes;
constexpr size_t kAllowedWhileClosing = 64ull << 10;

// Returns why a head is refused although Beast accepts it; empty if it is not refused. A proxy in
// front of this server could see another end of the body, or another host, and pass on a request
// that a client has hidden there.
template <class Request>
std::string_view AmbiguityOf(const Request& request) {
  const auto codings = request.count(http::field::transfer_encoding);
  if (codings > 1 ||
      (codings == 1 && !beast::iequals(request[http::field::transfer_encoding], "chunked"))) {
    return "the only transfer encoding is chunked";
  }
  const auto hosts = request.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && request.version() >= 11)) {
    return "a request needs one Host field";
  }
  return {};
}

template <class Stream>
class SocketOn final : public Socket,
                       public Wire,
                       public std::enable_shared_from_this<SocketOn<Stream>> {
 public:
  template <class... Args>
  SocketOn(Service& service, Sockets& all, std::string peer, std::string network,
           std::shared_ptr<const Door> door, Args&&... args)
      : service_(service),
        all_(all),
        peer_(std::move(peer)),
        network_(std::move(network)),
        door_(std::move(door)),
        ws_(std::forward<Args>(args)...) {
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
      TlsTcpStream& below = ws_.next_layer().next_layer();
      below.BeginHandshake(service_.handshakes, std::string(address()));
      // The handler may run on a work thread, which must not hold the last reference.
      ws_.next_layer().async_handshake(
          asio::ssl::stream_base::server,
          [self = this->shared_from_this()](beast::error_code error) mutable {
            Service& service = self->service_;
            service.post([self = std::move(self), error] { self->OnHandshake(error); });
          });
    } else {
      ReadHttp();
    }
  }

  bool unknown() const override {
    if (serving_ && !serving_->finished()) return false;
    return !connection_ || !connection_->known();
  }
  std::string_view address() const override { return network_; }
  void CloseGently(const std::string& reason) override { Close(reason); }
  void CloseAtOnce() override {
    // Either may hold the last reference to this socket.
    const auto self = std::exchange(paused_, nullptr);
    const auto serving = std::exchange(serving_, nullptr);
    if (serving) serving->Abandon();
    beast::error_code ignored;
    Lowest().socket().close(ignored);
  }
  void CloseWhenIdle() override {
    last_ = true;
    if (!serving_ || serving_->finished()) CloseAtOnce();
  }
  const Door* door() const override { return door_.get(); }

  // Wire
  void Ready() override {
    Pump();
    if (paused_ && connection_ && connection_->Reads() && !closing_) {
      const auto self = std::exchange(paused_, nullptr);
      Read();
    }
  }
  void Close(std::string_view reason) override {
    if (closing_) return;
    closing_ = true;
    const auto self = std::exchange(paused_, nullptr);
    reason_ = ToValidUtf8(reason).substr(0, kMostReasonBytes);
    if (!connection_) return CloseAtOnce();
    Pump();
  }

 private:
  using Parser = typename HttpServing<Stream>::Parser;
  using After = typename HttpServing<Stream>::After;

  TcpStream& Lowest() { return beast::get_lowest_layer(ws_); }

  // The name by which its work takes turns.
  const std::string& turn() const {
    return connection_ && connection_->known() ? connection_->username() : network_;
  }

  void OnHandshake(beast::error_code error) {
    if constexpr (std::is_same_v<Stream, Tls>) ws_.next_layer().next_layer().EndHandshake();
    if (!error) ReadHttp();
  }

  void ReadHttp() {
    buffer_.max_size(kHttpBufferBytes);  // a client may send a line without an end
    parser_ = std::make_shared<Parser>();
    parser_->header_limit(static_cast<uint32_t>(service_.limits.max_http_header_bytes));
    parser_->body_limit(service_.limits.max_http_body_bytes);
    http::async_read_header(ws_.next_layer(), buffer_, *parser_,
                            [self = this->shared_from_this()](beast::error_code error, size_t) {
                              if (error) return self->OnHttp(error);
                              self->service_.turns.Enter(self->network_,
                                                         [self] { self->OnHttp({}); });
                            });
  }

  void OnHttp(beast::error_code error) {
    const auto parser = std::exchange(parser_, nullptr);
    if (error) {
      if (error == http::error::end_of_stream || error.category() != HttpCategory()) return;
      return Refuse(*parser, {.status = error == http::error::body_limit ? 413u : 400u,
                              .body = fmt::format("bad request: {}\n", error.message())});
    }
    const auto& request = parser->get();
    if (const std::string_view problem = AmbiguityOf(request); !problem.empty()) {
      return Refuse(*parser, {.status = 400, .body = fmt::format("bad request: {}\n", problem)});
    }
    const Asked asked{
        .method = Text(request.method_string()),
        .target = Text(request.target()),
        .authorization = Text(request[http::field::authorization]),
        .origin = Text(request[http::field::origin]),
        .host = Text(request[http::field::host]),
        .if_none_match = Text(request[http::field::if_none_match]),
        .api_key = Text(request[kApiKey]),
        .fetch_site = Text(request["sec-fetch-site"]),
        .fetch_mode = Text(request["sec-fetch-mode"]),
        .fetch_dest = Text(request["sec-fetch-dest"]),
        .preflight_method = Text(request[http::field::access_control_request_method]),
        .preflight_headers = Text(request[http::field::access_control_request_headers]),
        .upgrade = !door_ && ws::is_upgrade(request),
        .secure = std::is_same_v<Stream, Tls>};
    if (asked.upgrade) return Upgrade(request, asked);
    auto to_serve = FindCall(service_, door_.get(), asked);
    if (auto* refused = std::get_if<HttpAnswer>(&to_serve)) {
      return Refuse(*parser, std::move(*refused));
    }
    Call& call = std::get<Call>(to_serve);
    if (call.program.empty()) return Answer(*parser, AnswerHttp(service_, asked));
    Serve(parser, std::move(call));
  }

  static const boost::system::error_category& HttpCategory() {
    static const beast::error_code any = http::error::bad_target;
    return any.category();
  }

  template <class Request>
  void Upgrade(const Request& request, const Asked& asked) {
    if (const std::string refusal = RefusalOf(service_, nullptr, asked); !refusal.empty()) {
      return Write({403, "text/plain; charset=utf-8", refusal + "\n"}, request.version(), false,
                   false);
    }
    // Scripts of inferlets may connect to these paths, but not to the server.
    if (service_.routes.Find(asked.target)) {
      return Write({400, "text/plain; charset=utf-8", "inferlets answer no WebSockets\n"},
                   request.version(), false, false);
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
    ws_.read_message_max(service_.limits.max_unknown_frame_bytes);
    // Beast answers pings itself, so they take no turns.
    ws_.control_callback([this](ws::frame_type, beast::string_view) { CountControlFrame(); });
    ws_.binary(true);
    ws_.auto_fragment(false);
    beast::error_code ignored;
    Lowest().socket().set_option(tcp::no_delay(true), ignored);
    ws_.async_accept(request, [self = this->shared_from_this()](beast::error_code error) {
      if (!error) self->OnAccepted();
    });
  }

  // Lets an inferlet answer.
  void Serve(const std::shared_ptr<Parser>& parser, Call call) {
    for (const auto& field : parser->get()) {
      // A user's key is for this server. It is not passed on to an inferlet of another user.
      const bool is_key = field.name() == http::field::authorization ||
                          beast::iequals(field.name_string(), kApiKey);
      if (is_key && !door_ && service_.auth.enabled()) continue;
      call.headers.append(Text(field.name_string())).append(":");
      call.headers.append(Text(field.value())).append("\n");
    }
    call.secure = std::is_same_v<Stream, Tls>;
    beast::error_code ignored;
    Lowest().socket().set_option(tcp::no_delay(true), ignored);
    const auto self = this->shared_from_this();
    serving_ = std::make_shared<HttpServing<Stream>>(service_, self, ws_.next_layer(), buffer_,
                                                     parser, [self](After after) {
                                                       self->serving_.reset();
                                                       self->GoOn(after);
                                                     });
    serving_->on_idle = [this] {
      since = std::chrono::steady_clock::now();
      if (last_) CloseAtOnce();
    };
    serving_->Start(std::move(call));
  }

  void GoOn(After after) {
    if (after == After::kLinger && !last_) return Linger();
    if (after != After::kNextRequest || last_) return CloseAtOnce();
    AwaitRequest();
  }

  // Ends a connection whose client may still be sending. If it were closed while bytes arrive, the
  // client's system would report a broken connection, and often drop the answer. So the end of the
  // answer is sent first. What comes until the client closes is read and dropped, for a while.
  void Linger() {
    since = std::chrono::steady_clock::now();
    beast::error_code ignored;
    Lowest().socket().shutdown(tcp::socket::shutdown_send, ignored);
    Lowest().rate_policy().Allow(service_.limits.max_http_body_bytes);
    Lowest().expires_after(std::chrono::seconds(service_.limits.linger_secs));
    buffer_.consume(buffer_.size());
    DropRest();
  }

  void DropRest() {
    Lowest().async_read_some(buffer_.prepare(kDroppedBytes), [self = this->shared_from_this()](
                                                                 beast::error_code error, size_t) {
      if (error) return self->CloseAtOnce();
      self->service_.turns.Enter(self->network_, [self] { self->DropRest(); });
    });
  }

  void AwaitRequest() {
    since = std::chrono::steady_clock::now();
    Lowest().expires_after(std::chrono::seconds(service_.limits.auth_timeout_secs));
    ReadHttp();
  }

  static std::string_view Text(beast::string_view view) { return {view.data(), view.size()}; }

  void Answer(const Parser& parser, HttpAnswer answer) {
    // The unread rest of a body would be taken for the next request.
    Write(std::move(answer), parser.get().version(), parser.get().keep_alive() && parser.is_done(),
          parser.get().method() == http::verb::head);
  }
  void Refuse(const Parser& parser, HttpAnswer answer) {
    // One who sends no valid head is not waited for.
    const bool valid = parser.is_header_done();
    Write(std::move(answer), valid ? parser.get().version() : 11, false, false, valid);
  }

  void Write(HttpAnswer answer, unsigned version, bool keep, bool head, bool linger = true) {
    struct Sending {
      HttpAnswer answer;  // holds the body of the response
      http::response<http::span_body<const char>> response;
    };
    auto sending = std::make_shared<Sending>(std::move(answer));
    auto& response = sending->response;
    response.result(sending->answer.status);
    response.version(version);
    response.set(http::field::server, "pie/" PIE_VERSION);
    response.set(http::field::content_type, sending->answer.type);
    // A document of this origin that had no policy could be used by scripts of an inferlet.
    response.set("Content-Security-Policy", "default-src 'none'; sandbox");
    for (const auto& [name, value] : sending->answer.headers) response.set(name, value);
    response.keep_alive(keep);
    const std::string_view content = sending->answer.content();
    if (!head) response.body() = {content.data(), content.size()};
    response.prepare_payload();
    if (head) response.content_length(content.size());
    Lowest().expires_after(std::chrono::seconds(service_.limits.pong_timeout_secs));
    http::async_write(
        ws_.next_layer(), response,
        [self = this->shared_from_this(), sending, linger](beast::error_code error, size_t) {
          if (error) return self->CloseAtOnce();
          if (!sending->response.need_eof()) return self->AwaitRequest();
          linger ? self->Linger() : self->CloseAtOnce();
        });
  }

  // A client pings every few seconds. One who sends thousands wants to keep this thread busy.
  void CountControlFrame() {
    const auto now = std::chrono::steady_clock::now();
    if (now - control_since_ >= std::chrono::seconds(1)) {
      control_since_ = now;
      control_frames_ = 0;
    }
    if (++control_frames_ != kMostControlFrames) return;
    service_.log.Limited("a client sent too many control frames", {{"peer", peer_}});
    service_.post([self = this->shared_from_this()] { self->CloseAtOnce(); });
  }

  void OnAccepted() {
    buffer_.max_size(std::numeric_limits<size_t>::max());  // messages have a limit of their own
    connection_ = std::make_shared<Connection>(service_, this, peer_, network_);
    Read();
  }

  // Reads a part of a message. The user is charged for the part that has arrived.
  void Read() {
    // A proof of the user may have been checked since the last message.
    if (connection_->known()) ws_.read_message_max(service_.limits.max_frame_bytes);
    Lowest().rate_policy().Allow(kAllowedForPart);
    ws_.async_read_some(buffer_, kReadBytes,
                        [self = this->shared_from_this()](beast::error_code error, size_t) {
                          self->OnRead(error);
                        });
  }

  void OnRead(beast::error_code error) {
    if (error) return End(error);
    if (closing_) return;
    const bool whole = ws_.is_message_done();
    if (!connection_->Receiving(buffer_.size())) {
      return Close("the messages that your clients are sending need more memory than is left");
    }
    if (whole && !ws_.got_binary()) {
      return Close("messages must be binary frames of MessagePack");
    }
    // Copying the next part of a large message, and handling one, takes milliseconds.
    service_.turns.Enter(turn(), [self = this->shared_from_this(), whole] {
      if (self->closing_ || self->ended_) return;
      whole ? self->HandleMessage() : self->Read();
    });
  }

  void HandleMessage() {
    const auto data = buffer_.cdata();
    connection_->OnFrame({static_cast<const char*>(data.data()), data.size()});
    buffer_.consume(data.size());
    connection_->Receiving(0);
    if (buffer_.capacity() > kKeptBufferBytes) buffer_ = beast::flat_buffer();
    if (closing_ && !closed_) {
      // Keeps reading until the client's own close arrives or the time is over.
      return;
    }
    if (connection_->Reads()) {
      Read();
    } else {
      paused_ = this->shared_from_this();
    }
  }

  void Pump() {
    if (writing_ || closed_ || !connection_) return;
    if (auto frame = connection_->Next()) {
      frame_ = *std::move(frame);
      writing_ = true;
      ws_.async_write(asio::buffer(frame_),
                      [self = this->shared_from_this()](beast::error_code error, size_t) {
                        if (error) return self->End(error);
                        self->service_.turns.Enter(self->turn(), [self] {
                          self->writing_ = false;
                          self->connection_->Sent();
                          self->Ready();
                        });
                      });
      return;
    }
    if (!closing_) return;
    closed_ = true;
    Lowest().rate_policy().Allow(kAllowedWhileClosing);
    ws_.async_close(ws::close_reason(ws::close_code::policy_error, reason_),
                    [self = this->shared_from_this()](beast::error_code) {});
  }

  void End(beast::error_code error) {
    if (ended_) return;
    ended_ = true;
    closed_ = true;
    const auto self = std::exchange(paused_, nullptr);
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
  const std::string network_;
  const std::shared_ptr<const Door> door_;  // of a daemon's port; null: the server's own port
  beast::flat_buffer buffer_;
  std::shared_ptr<Parser> parser_;
  ws::stream<Stream> ws_;
  std::shared_ptr<HttpServing<Stream>> serving_;
  std::shared_ptr<Connection> connection_;
  std::string frame_, reason_;
  // This socket, while it reads nothing because too much waits: no operation keeps it alive then.
  std::shared_ptr<SocketOn> paused_;
  std::chrono::steady_clock::time_point control_since_;
  size_t control_frames_ = 0;  // within that second
  bool writing_ = false;
  bool closing_ = false;  // close once all frames are sent
  bool closed_ = false;   // the close frame is being sent, or the socket is gone
  bool ended_ = false;
  bool last_ = false;  // the HTTP request that is being answered is the last
};

}  // namespace

std::string NetworkOf(const asio::ip::address& address) {
  if (!address.is_v6()) return address.to_string();
  const asio::ip::address_v6 six = address.to_v6();
  if (six.is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, six).to_string();
  }
  if (six.is_loopback()) return six.to_string();
  auto bytes = six.to_bytes();
  std::fill(bytes.begin() + bytes.size() / 2, bytes.end(), uint8_t{0});
  return asio::ip::address_v6(bytes).to_string() + "/64";
}

std::shared_ptr<Socket> MakeSocket(tcp::socket socket, asio::ssl::context* tls, Service& service,
                                   Sockets& all, std::shared_ptr<const Door> door) {
  boost::system::error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  std::string peer =
      error ? "?" : fmt::format("{}:{}", endpoint.address().to_string(), endpoint.port());
  std::string network = error ? "?" : NetworkOf(endpoint.address());
  if (tls != nullptr) {
    return std::make_shared<SocketOn<Tls>>(service, all, std::move(peer), std::move(network),
                                           std::move(door), std::move(socket), *tls);
  }
  return std::make_shared<SocketOn<Plain>>(service, all, std::move(peer), std::move(network),
                                           std::move(door), std::move(socket));
}

}  // namespace pie::server
