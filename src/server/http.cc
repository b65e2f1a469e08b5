#include "server/http.h"

#include <algorithm>

#include "server/server.h"
#include "server/status.h"

namespace pie::server {
namespace {

bool MayAsk(Service& service, std::string_view path, std::string_view authorization) {
  if (!service.auth.enabled() || std::ranges::find(kOpenRoutes, path) != std::end(kOpenRoutes)) {
    return true;
  }
  constexpr std::string_view kBearer = "Bearer ";
  return authorization.starts_with(kBearer) &&
         service.auth.IsToken(authorization.substr(kBearer.size()));
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

}  // namespace

bool MayUpgrade(const Service& service, std::string_view origin, std::string_view host) {
  if (origin.empty() || service.auth.enabled()) return true;
  const std::string_view page = HostOf(origin);
  return page == "localhost" || page == "127.0.0.1" || page == "[::1]" ||
         (page == HostOf(host) && !page.empty());
}

HttpAnswer AnswerHttp(Service& service, std::string_view method, std::string_view path,
                      std::string_view authorization) {
  path = path.substr(0, path.find('?'));
  if (!MayAsk(service, path, authorization)) {
    return {401, "text/plain; charset=utf-8",
            "this route needs the server's token: Authorization: Bearer <token>\n"};
  }
  if (method != "GET" && method != "HEAD") {
    return {405, "text/plain; charset=utf-8", "only GET and HEAD are supported\n"};
  }
  if (path == "/healthz") {
    if (service.draining) return {503, "text/plain; charset=utf-8", "draining\n"};
    return {200, "text/plain; charset=utf-8", "ok\n"};
  }
  if (path == "/metrics") return {200, "text/plain; version=0.0.4", MetricsText(service)};
  return {404, "text/plain; charset=utf-8",
          "not found. Clients connect by WebSocket; the HTTP routes are /healthz and /metrics\n"};
}

}  // namespace pie::server
