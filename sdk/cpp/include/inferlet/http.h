// HTTP, both ways: requests that an inferlet makes, and requests that it answers.
//
//   auto response = PIE_TRY(co_await http::Get("https://api.example.com/today").Send());
//   Json weather = PIE_TRY(co_await response.Json());
//
// The engine's config names the hosts that inferlets may reach (`[runtime.http] allow`). Redirects
// are not followed: the answer is the redirect itself, and its header `location` has the target.
//
// An inferlet that ends with PIE_HTTP in place of PIE_MAIN answers HTTP requests, each in an
// instance of its own:
//
//   Task<Result<void>> Serve(http::Request request, http::Responder respond) {
//     co_return co_await respond.Header("content-type", "text/plain").Send("hello");
//   }
//   PIE_HTTP(Serve)
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inferlet/json.h"
#include "inferlet/result.h"
#include "inferlet/task.h"

namespace inferlet::http {

// Names and values of headers, in the order of the message.
using Headers = std::vector<std::pair<std::string, std::string>>;
// The bytes of a body, or a part of them.
using Bytes = std::vector<uint8_t>;

// The longest body that is collected if the caller gives no limit.
inline constexpr size_t kMaxBodyBytes = size_t{64} << 20;

namespace detail {
class Incoming;
class Outgoing;
class OutParam;
}  // namespace detail

// A response whose head has arrived. The body arrives as it is read.
class Response {
 public:
  // The status code, such as 200.
  int Status() const { return status_; }
  // Whether the status is from 200 to 299.
  bool Ok() const { return status_ >= 200 && status_ < 300; }
  // All headers, in the order of their arrival.
  const http::Headers& Headers() const { return headers_; }
  // The value of the first header of this name, in any case of letters.
  std::optional<std::string> Header(std::string_view name) const;

  // The next bytes of the body; none at its end.
  Task<Result<std::optional<Bytes>>> Chunk() const;
  // The rest of the body.
  Task<Result<http::Bytes>> Bytes() const;
  // Returns the rest of the body as text. Fails if it is not UTF-8, or longer than kMaxBodyBytes.
  Task<Result<std::string>> Text() const;
  // Returns the rest of the body as JSON. Fails if it is not JSON.
  Task<Result<inferlet::Json>> Json() const;

 private:
  friend class Call;
  std::string url_;
  int status_ = 0;
  http::Headers headers_;
  std::shared_ptr<detail::Incoming> body_;
};

// A request before it is sent. Send reports errors in its parts.
class Call {
 public:
  // Makes a request of any method. Nothing is sent before Send.
  Call(std::string_view method, std::string_view url) : method_(method), url_(url) {}

  // Adds a header.
  Call& Header(std::string_view name, std::string_view value) {
    headers_.emplace_back(name, value);
    return *this;
  }
  // Sets the body.
  Call& Body(std::string_view body) {
    body_ = body;
    return *this;
  }
  // Sends a value as JSON.
  Call& Json(const inferlet::Json& value) {
    body_ = value.Dump();
    return Header("content-type", "application/json");
  }
  // Sets how long to wait for the connection, and for the first byte of the response. The engine
  // has a limit of its own.
  Call& Timeout(std::chrono::nanoseconds timeout) {
    timeout_ = timeout;
    return *this;
  }
  // Sends the request, and returns when the head of the response has arrived.
  Task<Result<Response>> Send() const { return SendNow(*this); }

 private:
  static Task<Result<Response>> SendNow(Call call);

  std::string method_;
  std::string url_;
  http::Headers headers_;
  std::string body_;
  std::optional<std::chrono::nanoseconds> timeout_;
};

// Makes a GET request.
inline Call Get(std::string_view url) {
  return Call("GET", url);
}
// Makes a POST request.
inline Call Post(std::string_view url) {
  return Call("POST", url);
}

// A request from a client.
class Request {
 public:
  // Made by PIE_HTTP from the engine's handle.
  explicit Request(int32_t handle);

  // The method in capitals, such as `GET`.
  const std::string& Method() const { return method_; }
  // The path without the query.
  const std::string& Path() const { return path_; }
  // The part of the URL after the question mark, or an empty text.
  const std::string& Query() const { return query_; }
  // All headers, in the order of their arrival.
  const http::Headers& Headers() const { return headers_; }
  // The value of the first header of this name, in any case of letters.
  std::optional<std::string> Header(std::string_view name) const;

  // Returns the rest of the body. Fails if it is longer than `limit` bytes.
  Task<Result<std::string>> Body(size_t limit = kMaxBodyBytes) const;
  // The next bytes of the body; none at its end.
  Task<Result<std::optional<Bytes>>> Chunk() const;

 private:
  std::string method_;
  std::string path_;
  std::string query_;
  http::Headers headers_;
  std::shared_ptr<detail::Incoming> body_;
};

// The body of a response. If Finish is not called, the client sees that the body was cut off.
class Body {
 public:
  explicit Body(std::shared_ptr<detail::Outgoing> outgoing) : outgoing_(std::move(outgoing)) {}
  // Writes to the body. Waits while the client reads slowly, and fails if the client has left.
  // `text` must live until the task has ended.
  Task<Result<void>> Write(std::string_view text) const;
  Task<Result<void>> Write(std::span<const uint8_t> bytes) const;
  // Ends the body. Fails if the client has left.
  Result<void> Finish() const;

 private:
  std::shared_ptr<detail::Outgoing> outgoing_;
};

// The place for the one response to a request. Dropping it unused is an error that the client sees.
class Responder {
 public:
  // Made by PIE_HTTP from the engine's handle.
  explicit Responder(int32_t handle);

  // Sets the status code. The default is 200.
  Responder& Status(int status) {
    status_ = status;
    return *this;
  }
  // Adds a header.
  Responder& Header(std::string_view name, std::string_view value) {
    headers_.emplace_back(name, value);
    return *this;
  }
  // Sends the head of the response. The body follows as it is written.
  Result<Body> Start();
  // Sends a whole response. `body` must live until the task has ended.
  Task<Result<void>> Send(std::string_view body);

 private:
  std::shared_ptr<detail::OutParam> out_;
  int status_ = 200;
  http::Headers headers_;
};

namespace detail {
// Runs a handler to its end, and prints its error.
void Answer(Task<Result<void>> handler);
}  // namespace detail

}  // namespace inferlet::http

// PIE_HTTP(Serve): makes `Serve` the function that answers HTTP requests.
#define PIE_HTTP(function)                                                                        \
  extern "C" [[gnu::used, clang::export_name("wasi:http/incoming-handler@0.2.12#handle")]]        \
  void PieHandle(int32_t request, int32_t response_out) {                                         \
    ::inferlet::http::detail::Answer(                                                             \
        function(::inferlet::http::Request(request), ::inferlet::http::Responder(response_out))); \
  }
