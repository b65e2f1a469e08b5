// Bodies of HTTP messages, and what their two sides share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "inferlet/bindings.h"
#include "inferlet/http.h"

namespace inferlet::http {

namespace host = wasi::http::types;
namespace streams = wasi::io::streams;

namespace detail {

// The body of a request or a response, which is read once. The stream goes before the body that it
// belongs to, so it comes last here.
class Incoming {
 public:
  Incoming(host::IncomingBody body, streams::InputStream stream)
      : body_(std::move(body)), stream_(std::move(stream)) {}
  const streams::InputStream& stream() const { return stream_; }

 private:
  host::IncomingBody body_;
  streams::InputStream stream_;
};

// A body that is written.
class Outgoing {
 public:
  Outgoing(host::OutgoingBody body, streams::OutputStream stream)
      : body_(std::move(body)), stream_(std::move(stream)) {}
  bool IsOpen() const { return stream_.has_value(); }
  const streams::OutputStream& stream() const { return *stream_; }
  Result<void> Finish();

 private:
  host::OutgoingBody body_;
  std::optional<streams::OutputStream> stream_;
};

// Takes the body out of a message. None if it was taken already.
template <class Message>
std::shared_ptr<Incoming> BodyOf(const Message& message) {
  auto body = message.Consume();
  if (!body) return nullptr;
  auto stream = body->Stream();
  if (!stream) return nullptr;
  return std::make_shared<Incoming>(*std::move(body), *std::move(stream));
}

// The next bytes; none at the end.
Task<Result<std::optional<Bytes>>> Read(std::shared_ptr<Incoming> body, std::string where);
// All that is left, up to a limit.
Task<Result<std::string>> ReadAll(std::shared_ptr<Incoming> body, size_t limit, std::string where);
// Writes all bytes, and waits while the other side reads slowly.
Task<Result<void>> Write(std::shared_ptr<Outgoing> body, std::span<const uint8_t> bytes);

Result<host::Fields> FieldsOf(const Headers& headers);
Headers HeadersOf(const host::Fields& fields);
std::optional<std::string> Find(const Headers& headers, std::string_view name);

host::Method MethodOf(std::string_view name);
std::string NameOf(const host::Method& method);

// Why a request failed, and what to do about it.
std::string Describe(const host::ErrorCode& error);
// Why a body ended early.
std::string DescribeIo(const wasi::io::error::Error& error);

inline std::span<const uint8_t> BytesOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace detail
}  // namespace inferlet::http
