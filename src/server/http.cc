#include "server/http.h"

#include <algorithm>

#include "server/server.h"
#include "server/status.h"

namespace pie::server {
namespace {

std::string_view BearerOf(std::string_view authorization) {
  constexpr std::string_view kBearer = "Bearer ";
  return authorization.starts_with(kBearer) ? authorization.substr(kBearer.size())
                                            : std::string_view();
}

HttpAnswer Refusal(unsigned status, std::string_view type, std::string_view message) {
  return {status, "application/json", ErrorJson(type, message)};
}

bool MayAsk(Service& service, std::string_view path, std::string_view authorization) {
  if (!service.auth.enabled() || std::ranges::find(kOpenRoutes, path) != std::end(kOpenRoutes)) {
    return true;
  }
  return service.auth.IsToken(BearerOf(authorization));
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
      return Refusal(403, "permission_error", "web pages of other origins may not ask this server");
    }
    const auto user = service.auth.UserOf(BearerOf(asked.authorization));
    if (!user) {
      return Refusal(401, "authentication_error",
                     "this route needs an API key: Authorization: Bearer <key>. Make one with "
                     "`pie auth token create USER`");
    }
    call.username = *user;
  }
  if (!call.target.starts_with('/')) {
    return Refusal(400, "invalid_request_error", "the target of a request must be a path");
  }
  if (service.draining) return Refusal(503, "server_error", "the server is shutting down");
  if (*service.exchanges >= service.limits.max_http_requests) {
    return Refusal(503, "server_error", "too many requests are being answered; try again later");
  }
  return call;
}

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
  if (path == "/metrics") return {200, "text/plain; version=0.0.4", MetricsText(service)};
  return {404, "text/plain; charset=utf-8",
          "not found. Clients connect by WebSocket; the HTTP routes are /healthz, /metrics, "
          "/apps/<inferlet>/ and those of server.routes\n"};
}

}  // namespace pie::server
