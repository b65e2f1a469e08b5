// The meaning of errors of wasi:http, and what to do about them.
#include <array>

#include "http_body.h"

namespace inferlet::http::detail {

namespace {

constexpr std::string_view kUnreachable = "the host cannot be reached";

// The cases of host::ErrorCode, in their order.
constexpr auto kErrors = std::to_array<std::string_view>({
    "the name was not resolved in time",
    "the name was not found",
    "the name has no address",
    kUnreachable,
    "the name leads to an address that is not public; add the address to [runtime.http] allow",
    kUnreachable,
    "the server refused the connection",
    "the other side has closed the connection",
    "no connection was made in time",
    "the response did not arrive in time (runtime.http.timeout_secs)",
    "connection write timeout",
    "this inferlet has made too many requests (runtime.http.max_requests, max_in_flight)",
    "TLS failed; the port may speak plain HTTP",
    "the server's certificate is not valid; the engine trusts the certificates of its system",
    "the server refused to speak TLS",
    "the engine's config does not allow this host; add it to [runtime.http] allow",
    "http request length required",
    "the request's body is too long (runtime.http.max_request_mb)",
    "the engine does not send requests with this method",
    "the URL is malformed, or has a user and a password; send these in a header",
    "http request uri too long",
    "http request header section size",
    "http request header size",
    "http request trailer section size",
    "http request trailer size",
    "the response ended before it was complete",
    "the head of the response is too long",
    "http response header size",
    "the response is too long (runtime.http.max_response_mb)",
    "http response trailer section size",
    "http response trailer size",
    "http response transfer coding",
    "http response content coding",
    "no response came in time",
    "http upgrade failed",
    "the server's answer is not HTTP",
    "loop detected",
    "configuration error",
    "internal error",
});
static_assert(kErrors.size() == std::variant_size_v<decltype(host::ErrorCode::variants)>);

}  // namespace

std::string Describe(const host::ErrorCode& error) {
  using Code = host::ErrorCode;
  const auto& cases = error.variants;
  const std::string text(kErrors[cases.index()]);
  if (const auto* size = std::get_if<Code::HttpResponseBodySize>(&cases); size && size->value) {
    return "the response is longer than " + std::to_string(*size->value) +
           " bytes (runtime.http.max_response_mb)";
  }
  if (const auto* dns = std::get_if<Code::DnsError>(&cases)) {
    return text + ": " + (dns->value.rcode ? dns->value.rcode->to_string() : "");
  }
  if (const auto* alert = std::get_if<Code::TlsAlertReceived>(&cases)) {
    return text + ": " +
           (alert->value.alert_message ? alert->value.alert_message->to_string() : "");
  }
  const auto* internal = std::get_if<Code::InternalError>(&cases);
  return internal && internal->value ? internal->value->to_string() : text;
}

std::string DescribeIo(const wasi::io::error::Error& error) {
  const std::optional<host::ErrorCode> code = host::HttpErrorCode(error);
  return code ? Describe(*code) : error.ToDebugString().to_string();
}

}  // namespace inferlet::http::detail
