#include "http_body.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "inferlet/reactor.h"

namespace inferlet::http::detail {

namespace {

constexpr uint64_t kPieceBytes = 64 << 10;

// The failure of a stream; none if it has ended.
std::optional<std::string> FailureOf(const streams::StreamError& error) {
  using Failed = streams::StreamError::LastOperationFailed;
  const auto* failed = std::get_if<Failed>(&error.variants);
  if (!failed) return std::nullopt;
  return DescribeIo(failed->value);
}

std::string Failure(const streams::StreamError& error) {
  return FailureOf(error).value_or("the other side has closed the connection");
}

// The cases of host::Method that have a name, in their order.
constexpr std::array<std::string_view, 9> kMethods = {
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};

}  // namespace

Result<void> Outgoing::Finish() {
  if (!stream_) return {};
  stream_.reset();
  auto finished = host::OutgoingBody::Finish(std::move(body_), std::nullopt);
  if (!finished) return Error(Describe(finished.error()));
  return {};
}

Task<Result<std::optional<Bytes>>> Read(std::shared_ptr<Incoming> body, std::string where) {
  if (!body) co_return std::optional<Bytes>();
  for (;;) {
    auto piece = body->stream().Read(kPieceBytes);
    if (!piece) {
      const std::optional<std::string> failure = FailureOf(piece.error());
      if (failure) co_return Error(where + *failure);
      co_return std::optional<Bytes>();
    }
    if (piece->size() > 0) {
      co_return std::optional<Bytes>(Bytes(piece->data(), piece->data() + piece->size()));
    }
    co_await Ready(body->stream().Subscribe());
  }
}

Task<Result<std::string>> ReadAll(std::shared_ptr<Incoming> body, size_t limit, std::string where) {
  std::string all;
  for (;;) {
    const std::optional<Bytes> piece = PIE_TRY(co_await Read(body, where));
    if (!piece) co_return all;
    if (all.size() + piece->size() > limit) {
      co_return Error(where + "the body has more than " + std::to_string(limit) + " bytes");
    }
    all.append(piece->begin(), piece->end());
  }
}

Task<Result<void>> Write(std::shared_ptr<Outgoing> body, std::span<const uint8_t> bytes) {
  if (!body->IsOpen()) co_return Error("the body is finished");
  while (!bytes.empty()) {
    const auto room = body->stream().CheckWrite();
    if (!room) co_return Error(Failure(room.error()));
    if (*room == 0) {
      co_await Ready(body->stream().Subscribe());
      continue;
    }
    const size_t now = std::min<uint64_t>(*room, bytes.size());
    const auto written = body->stream().Write(bytes.first(now));
    if (!written) co_return Error(Failure(written.error()));
    bytes = bytes.subspan(now);
  }
  co_return Result<void>();
}

Result<host::Fields> FieldsOf(const Headers& headers) {
  std::vector<std::tuple<std::string_view, std::span<const uint8_t>>> entries;
  entries.reserve(headers.size());
  for (const auto& [name, value] : headers) entries.emplace_back(name, BytesOf(value));
  auto fields = host::Fields::FromList(entries);
  if (fields) return *std::move(fields);
  const bool forbidden =
      std::holds_alternative<host::HeaderError::Forbidden>(fields.error().variants);
  return Error(forbidden ? "headers: forbidden" : "headers: invalid syntax");
}

Headers HeadersOf(const host::Fields& fields) {
  Headers headers;
  const auto entries = fields.Entries();
  for (const auto& [name, value] : entries.get_view()) {
    headers.emplace_back(name.to_string(), std::string(value.data(), value.data() + value.size()));
  }
  return headers;
}

std::optional<std::string> Find(const Headers& headers, std::string_view name) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) ==
           std::tolower(static_cast<unsigned char>(b));
  };
  for (const auto& [other, value] : headers) {
    if (std::ranges::equal(other, name, same)) return value;
  }
  return std::nullopt;
}

host::Method MethodOf(std::string_view name) {
  using Method = host::Method;
  if (name == "GET") return {Method::Get{}};
  if (name == "HEAD") return {Method::Head{}};
  if (name == "POST") return {Method::Post{}};
  if (name == "PUT") return {Method::Put{}};
  if (name == "DELETE") return {Method::Delete{}};
  if (name == "OPTIONS") return {Method::Options{}};
  if (name == "PATCH") return {Method::Patch{}};
  return {Method::Other{wit::string::from_view(name)}};
}

std::string NameOf(const host::Method& method) {
  const size_t index = method.variants.index();
  if (index < kMethods.size()) return std::string(kMethods[index]);
  return std::get<host::Method::Other>(method.variants).value.to_string();
}

}  // namespace inferlet::http::detail
