// HttpServing: one request to an inferlet on a socket, from the end of its head to the end of the
// response. It streams both bodies, and notices when the client leaves. IO thread.
#pragma once

#include <array>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "server/exchange.h"

namespace pie::server {

namespace beast = boost::beast;
namespace http = beast::http;
namespace asio = boost::asio;

template <class Stream>
class HttpServing final : public Exchange::Client,
                          public std::enable_shared_from_this<HttpServing<Stream>> {
 public:
  using Parser = http::request_parser<http::buffer_body>;
  // What becomes of the connection: it takes another request; the client has its answer, but is
  // still sending; or there is nobody to answer, or the answer broke off.
  enum class After : uint8_t { kNextRequest, kLinger, kClose };
  // Called once, when the response is sent, or cannot be.
  using Done = std::function<void(After)>;

  // `stream` and `buffer` belong to `owner`. It lives as long as this object, because reads and
  // writes that are under way use both even after the connection was closed.
  HttpServing(Service& service, std::shared_ptr<void> owner, Stream& stream,
              beast::flat_buffer& buffer, std::shared_ptr<Parser> parser, Done done)
      : service_(service),
        owner_(std::move(owner)),
        stream_(stream),
        buffer_(buffer),
        parser_(std::move(parser)),
        done_(std::move(done)),
        body_deadline_(Clock::now() + std::chrono::seconds(service.limits.http_body_secs)) {}

  void Start(Call call) {
    const auto& request = parser_->get();
    keep_alive_ = request.keep_alive();
    version_ = request.version();
    is_head_ = request.method() == http::verb::head;
    expects_continue_ =
        beast::iequals(request[http::field::expect], "100-continue") && version_ >= 11;
    user_ = call.username;
    exchange_ = std::make_shared<Exchange>(service_, this, std::move(call));
    exchange_->Begin();
    // A read of the last piece may be done and not reported yet; then OnBody watches.
    if (parser_->is_done() && !reading_) Watch();
  }
  // The response is sent, and the connection waits for the next request.
  bool finished() const { return finished_; }
  // The socket is gone, or is about to be closed.
  void Abandon() {
    if (exchange_) std::exchange(exchange_, nullptr)->Leave();
    End(After::kClose);
  }

 private:
  using Clock = std::chrono::steady_clock;
  using ErrorCode = beast::error_code;
  static constexpr size_t kPieceBytes = 64ull << 10;

  // Exchange::Client
  void OnBodyWanted() override {
    if (reading_ || !exchange_) return;
    if (parser_->is_done()) {
      if (!std::exchange(body_ended_, true)) exchange_->PassBody({}, true);
      return;
    }
    if (std::exchange(expects_continue_, false)) {
      static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
      writing_ = true;
      Expire();
      asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                        [self = this->shared_from_this()](ErrorCode error, size_t) {
                          self->writing_ = false;
                          if (error) return self->Abandon();
                          self->ReadBody();
                          self->Pump();
                        });
      return;
    }
    ReadBody();
  }
  void OnResponseReady() override { Pump(); }

  void ReadBody() {
    if (!exchange_ || reading_) return;
    if (Clock::now() > body_deadline_) return Abandon();
    reading_ = true;
    if (!piece_) piece_ = std::make_unique<std::array<char, kPieceBytes>>();
    parser_->get().body().data = piece_->data();
    parser_->get().body().size = piece_->size();
    Expire();
    http::async_read_some(stream_, buffer_, *parser_,
                          [self = this->shared_from_this()](ErrorCode error, size_t) {
                            self->service_.turns.Enter(self->user_, [self, error] {
                              self->reading_ = false;
                              self->OnBody(error);
                            });
                          });
  }

  void OnBody(ErrorCode error) {
    const bool broken = error && error != http::error::need_buffer;
    if (!exchange_) {
      if (lingers_) End(broken ? After::kClose : After::kLinger);
      return;
    }
    if (broken) return Abandon();
    const size_t bytes = piece_->size() - parser_->get().body().size;
    const bool last = parser_->is_done();
    if (last) body_ended_ = true;
    if (bytes == 0 && !last) return ReadBody();
    exchange_->PassBody({piece_->data(), bytes}, last);
    if (!last) return;
    piece_.reset();
    Watch();
  }

  // Keeps reading after the request, to notice the next request, or that the client leaves.
  void Watch() {
    if (watching_ || buffer_.size() > 0) return;  // the next request is here already
    watching_ = true;
    beast::get_lowest_layer(stream_).expires_never();
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = this->shared_from_this()](ErrorCode error, size_t bytes) {
                              self->watching_ = false;
                              self->buffer_.commit(bytes);
                              if (error) return self->Abandon();
                              if (self->finished_) self->Finish(true);
                            });
  }

  // Sends the part of the response that has arrived.
  void Pump() {
    if (writing_ || finished_ || !exchange_) return;
    if (!pending_.ended) {
      auto more = exchange_->Take();
      if (more.status) {
        pending_.status = more.status;
        pending_.headers = std::move(more.headers);
      }
      pending_.body += more.body;
      pending_.ended = more.ended;
      pending_.complete = more.complete;
    }
    if (!serializer_) {
      if (pending_.status) WriteHead();
      return;
    }
    if (!pending_.body.empty()) return WriteBody();
    if (pending_.ended) WriteEnd();
  }

  void WriteHead() {
    response_.emplace();
    response_->version(version_);
    response_->result(*std::exchange(pending_.status, std::nullopt));
    bool sized = false;
    ForEachLine(pending_.headers, [&](std::string_view name, std::string_view value) {
      const beast::string_view field(name.data(), name.size());
      if (beast::iequals(field, "content-length")) sized = true;
      response_->insert(field, beast::string_view(value.data(), value.size()));
    });
    pending_.headers.clear();
    if (response_->find(http::field::server) == response_->end()) {
      response_->set(http::field::server, "pie/" PIE_VERSION);
    }
    const unsigned status = response_->result_int();
    bodiless_ = is_head_ || status == 204 || status == 304 || status < 200;
    if (!sized && !bodiless_) {
      if (pending_.ended && pending_.complete) {
        response_->content_length(pending_.body.size());
      } else if (version_ >= 11) {
        response_->chunked(true);
      } else {
        keep_alive_ = false;  // its end is the end of the connection
      }
    }
    // Otherwise the unread rest of the request's body would be read as the next request.
    if (!parser_->is_done()) keep_alive_ = false;
    response_->keep_alive(keep_alive_);
    response_->body().data = nullptr;
    response_->body().more = true;
    serializer_.emplace(*response_);
    writing_ = true;
    Expire();
    http::async_write_header(
        stream_, *serializer_,
        [self = this->shared_from_this()](ErrorCode error, size_t) { self->OnWritten(error); });
  }

  void WriteBody() {
    sending_ = std::exchange(pending_.body, {});
    if (bodiless_) return Pump();
    response_->body().data = sending_.data();
    response_->body().size = sending_.size();
    response_->body().more = true;
    Write();
  }

  void WriteEnd() {
    if (!pending_.complete) return Abandon();
    if (bodiless_) return Finish(keep_alive_);
    response_->body().data = nullptr;
    response_->body().more = false;
    ending_ = true;
    Write();
  }

  void Write() {
    writing_ = true;
    Expire();
    http::async_write(
        stream_, *serializer_, [self = this->shared_from_this()](ErrorCode error, size_t) {
          if (error == http::error::need_buffer) error = {};
          self->service_.turns.Enter(self->user_, [self, error] { self->OnWritten(error); });
        });
  }

  void OnWritten(ErrorCode error) {
    writing_ = false;
    if (error) return Abandon();
    if (ending_) return Finish(keep_alive_);
    Pump();
  }

  void Finish(bool keep) {
    if (exchange_) std::exchange(exchange_, nullptr)->Finish();
    if (keep && watching_) {
      finished_ = true;  // goes on when the next request begins
      if (on_idle) on_idle();
      return;
    }
    if (keep || parser_->is_done()) return End(keep ? After::kNextRequest : After::kClose);
    lingers_ = true;
    if (!reading_) End(After::kLinger);
  }

  void End(After after) {
    if (auto done = std::exchange(done_, nullptr)) done(after);
  }

  void Expire() {
    beast::get_lowest_layer(stream_).expires_after(
        std::chrono::seconds(service_.limits.pong_timeout_secs));
  }

  template <class F>
  static void ForEachLine(std::string_view lines, F use) {
    while (!lines.empty()) {
      const size_t end = std::min(lines.find('\n'), lines.size());
      const std::string_view line = lines.substr(0, end);
      const size_t colon = line.find(':');
      if (colon != std::string_view::npos) use(line.substr(0, colon), line.substr(colon + 1));
      lines.remove_prefix(std::min(end + 1, lines.size()));
    }
  }

  Service& service_;
  const std::shared_ptr<void> owner_;
  Stream& stream_;
  beast::flat_buffer& buffer_;
  const std::shared_ptr<Parser> parser_;
  Done done_;
  std::string user_;  // by whom its work takes turns
  const Clock::time_point body_deadline_;
  std::shared_ptr<Exchange> exchange_;
  std::unique_ptr<std::array<char, kPieceBytes>> piece_;
  Exchange::Response pending_;  // taken, and not sent yet
  std::string sending_;
  std::optional<http::response<http::buffer_body>> response_;
  std::optional<http::response_serializer<http::buffer_body>> serializer_;
  unsigned version_ = 11;
  bool keep_alive_ = false, is_head_ = false, expects_continue_ = false, bodiless_ = false;
  bool reading_ = false, body_ended_ = false, writing_ = false, ending_ = false;
  bool watching_ = false, finished_ = false;
  bool lingers_ = false;  // the answer is sent, and a read of the body is still under way

 public:
  std::function<void()> on_idle;  // the response is sent, and no further request has come
};

}  // namespace pie::server
