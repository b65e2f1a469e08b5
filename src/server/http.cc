#include "server/http.h"

#include <algorithm>
#include <string>
#include <vector>

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

// Answers a browser that asks whether a page of another origin may send a request.
HttpAnswer AnswerPreflight(const Asked& asked) {
  HttpAnswer answer{.status = 204};
  answer.headers = {{"Access-Control-Allow-Methods", std::string(asked.preflight_method)},
                    {"Access-Control-Max-Age", "600"}};
  if (!asked.preflight_headers.empty()) {
    answer.headers.emplace_back("Access-Control-Allow-Headers", asked.preflight_headers);
  }
  return answer;
}

std::variant<Call, HttpAnswer> FindAnswer(Service& service, const Door* door, const Asked& asked) {
  Call call{.method = std::string(asked.method),
            .authority = asked.host.empty() ? "localhost" : std::string(asked.host),
            .guard = {.reader = std::string(service.web.ReaderOf(asked))}};
  const bool preflight =
      asked.method == "OPTIONS" && !asked.preflight_method.empty() && !call.guard.reader.empty();
  const std::string problem = RefusalOf(service, door, asked);
  if (door != nullptr) {
    if (!problem.empty()) return Refusal(403, "permission_error", problem);
    call.program = door->program;
    call.username = door->username;
    call.input = door->input;
    call.target = asked.target;
    if (preflight) return AnswerPreflight(asked);
  } else {
    const auto route = service.routes.Find(asked.target);
    if (!route) return call;
    call.program = route->program;
    call.target = route->target;
    if (!problem.empty()) return Refusal(403, "permission_error", problem);
    if (preflight) return AnswerPreflight(asked);
    if (!service.web.Trusts(route->program)) {
      if (const std::string place = service.web.NamedPlaceOf(asked); !place.empty()) {
        return HttpAnswer{
            .status = 307,
            .body = "",
            .headers = {
                {"Location", place}, {"Cache-Control", "no-store"}, {"Vary", "Sec-Fetch-Mode"}}};
      }
      call.guard.shares_origin = route->shares_origin;
      call.guard.policy = service.policies.Of(asked, route->prefix);
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

}  // namespace

std::string RefusalOf(const Service& service, const Door* door, const Asked& asked) {
  const bool login = door == nullptr && service.auth.enabled();
  return login ? std::string() : service.web.RefusalOf(asked);
}

std::variant<Call, HttpAnswer> FindCall(Service& service, const Door* door, const Asked& asked) {
  auto found = FindAnswer(service, door, asked);
  const std::string_view reader = service.web.ReaderOf(asked);
  if (auto* refusal = std::get_if<HttpAnswer>(&found); refusal != nullptr && !reader.empty()) {
    // Without this header, the page could not read why its request is refused.
    refusal->headers.emplace_back("Access-Control-Allow-Origin", reader);
    refusal->headers.emplace_back("Vary", "Origin");
  }
  return found;
}

namespace {

// A file of the page. Its headers forbid everything that the page does not need: other origins,
// scripts within the text, being framed.
HttpAnswer AnswerFile(const Page::File& file, const Asked& asked) {
  HttpAnswer answer{.type = file.type, .file = file.bytes};
  if (asked.if_none_match.find(file.etag) != std::string_view::npos) {
    answer.status = 304;
    answer.file = {};
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
    const bool asks = asked.method == "OPTIONS";
    return {.status = asks ? 204u : 405u,
            .body = asks ? "" : "only GET and HEAD are supported\n",
            .headers = {{"Allow", "GET, HEAD, OPTIONS"}}};
  }
  if (path == "/healthz") {
    if (service.draining) return {503, "text/plain; charset=utf-8", "draining\n"};
    return {200, "text/plain; charset=utf-8", "ok\n"};
  }
  if (const std::string refusal = RefusalOf(service, nullptr, asked); !refusal.empty()) {
    return {403, "text/plain; charset=utf-8", refusal + "\n"};
  }
  if (const Page::File* file = service.page.Find(path)) return AnswerFile(*file, asked);
  if (path == "/metrics") return {200, "text/plain; version=0.0.4", MetricsText(service)};
  return {404, "text/plain; charset=utf-8",
          "not found. Clients connect by WebSocket; the HTTP routes are / (a page for browsers), "
          "/healthz, /metrics, /apps/<inferlet>/ and those of server.routes\n"};
}

}  // namespace pie::server
