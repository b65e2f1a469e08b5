#include "server/http.h"

#include <algorithm>

#include "server/server.h"
#include "server/status.h"

namespace pie::server {
namespace {

// The key of an Authorization header. Its scheme may be written in any case of letters.
std::string_view BearerOf(std::string_view authorization) {
  constexpr std::string_view kBearer = "bearer ";
  const auto same = [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a | 0x20 : a) == b; };
  const bool is_bearer = std::ranges::equal(authorization.substr(0, kBearer.size()), kBearer, same);
  return is_bearer ? authorization.substr(kBearer.size()) : std::string_view();
}

HttpAnswer Refusal(unsigned status, std::string_view type, std::string_view message,
                   std::string_view code = {}) {
  return {status, "application/json", ErrorJson(type, message, code)};
}

bool MayAsk(Service& service, std::string_view path, std::string_view authorization) {
  if (!service.auth.enabled()) return true;
  const bool open = std::ranges::any_of(kHttpRoutes, [&](const HttpRoute& route) {
    const bool below = route.path.size() > 1 && route.path.ends_with('/');
    return route.login == Login::kNone &&
           (below ? path.starts_with(route.path) : path == route.path);
  });
  return open || service.auth.IsToken(BearerOf(authorization));
}

// Returns an address without its scheme and port.
std::string_view HostOf(std::string_view address) {
  if (const size_t scheme = address.find("://"); scheme != std::string_view::npos) {
    address.remove_prefix(scheme + 3);
  }
  const size_t bracket = address.starts_with('[') ? address.find(']') : 0;
  return bracket == std::string_view::npos ? address
                                           : address.substr(0, address.find(':', bracket));
}

bool IsThisMachine(std::string_view host) {
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

}  // namespace

bool MayUpgrade(const Service& service, std::string_view origin, std::string_view host) {
  if (origin.empty() || service.auth.enabled()) return true;
  // An attacker's name may point to this machine (DNS rebinding), so both have to be names
  // that only this machine has.
  return IsThisMachine(HostOf(origin)) && IsThisMachine(HostOf(host));
}

std::variant<Call, HttpAnswer> FindCall(Service& service, const Door* door, const Asked& asked) {
  Call call{.method = std::string(asked.method),
            .authority = asked.host.empty() ? "localhost" : std::string(asked.host)};
  if (door != nullptr) {
    call.program = door->program;
    call.username = door->username;
    call.input = door->input;
    call.target = asked.target;
  } else {
    const auto route = service.routes.Find(asked.target);
    if (!route) return call;
    call.program = route->program;
    call.target = route->target;
    if (!MayUpgrade(service, asked.origin, asked.host)) {
      return Refusal(403, "permission_error",
                     "web pages of other origins may not send requests to this server");
    }
    const std::string_view bearer = BearerOf(asked.authorization);
    const auto user = service.auth.UserOf(bearer.empty() ? asked.api_key : bearer);
    if (!user) {
      // The two APIs that clients speak name this error differently.
      const bool anthropic = !asked.api_key.empty();
      return Refusal(
          401, anthropic ? "authentication_error" : "invalid_request_error",
          "this route needs an API key: Authorization: Bearer <key>, or x-api-key: <key>. "
          "Make one with `pie auth token create USER`",
          "invalid_api_key");
    }
    call.username = *user;
  }
  if (!call.target.starts_with('/')) {
    return Refusal(400, "invalid_request_error", "the target of a request must be a path");
  }
  if (service.draining) return Refusal(503, "server_error", "the server is shutting down");
  (void)service.engine.users().Of(call.username);  // from the second user on, each has a share
  if (!service.requests.Of(call.username)->Fits(1)) {
    HttpAnswer refusal =
        Refusal(429, "rate_limit_error",
                "too many requests of this user are being answered; try again later",
                "rate_limit_exceeded");
    refusal.headers = {{"Retry-After", "1"}};
    return refusal;
  }
  return call;
}

namespace {

// A file of the page. Its headers forbid everything that the page does not need: other origins,
// scripts within the text, being framed.
HttpAnswer AnswerFile(const Service& service, const Page::File& file, const Asked& asked) {
  if (!MayUpgrade(service, asked.origin, asked.host)) {
    return {403, "text/plain; charset=utf-8",
            "web pages of other origins may not read this page\n"};
  }
  HttpAnswer answer{.type = file.type, .body = file.bytes};
  if (asked.if_none_match.find(file.etag) != std::string_view::npos) {
    answer.status = 304;
    answer.body.clear();
  }
  answer.headers = {
      {"ETag", file.etag},
      {"Cache-Control", "no-cache"},
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
       "require-trusted-types-for 'script'; trusted-types 'none'"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Referrer-Policy", "no-referrer"},
      {"X-Content-Type-Options", "nosniff"},
  };
  return answer;
}

}  // namespace

HttpAnswer AnswerHttp(Service& service, const Asked& asked) {
  const std::string_view path = asked.target.substr(0, asked.target.find('?'));
  if (!MayAsk(service, path, asked.authorization)) {
    return {401, "text/plain; charset=utf-8",
            "this route needs the server's token: Authorization: Bearer <token>\n"};
  }
  if (asked.method != "GET" && asked.method != "HEAD") {
    return {405, "text/plain; charset=utf-8", "only GET and HEAD are supported\n"};
  }
  if (path == "/healthz") {
    if (service.draining) return {503, "text/plain; charset=utf-8", "draining\n"};
    return {200, "text/plain; charset=utf-8", "ok\n"};
  }
  if (const Page::File* file = service.page.Find(path)) return AnswerFile(service, *file, asked);
  if (path == "/metrics") return {200, "text/plain; version=0.0.4", MetricsText(service)};
  return {404, "text/plain; charset=utf-8",
          "not found. Clients connect by WebSocket; the HTTP routes are / (a page for browsers), "
          "/healthz, /metrics, /apps/<inferlet>/ and those of server.routes\n"};
}

}  // namespace pie::server
