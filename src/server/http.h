// The HTTP routes, without a socket: a request's head in, a status and a text out, or the inferlet
// that answers it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "server/exchange.h"
#include "server/service.h"
#include "server/web_access.h"

namespace pie::server {

struct HttpAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  // The body, if it is a file of the page. It is not copied, because the file lives as long as the
  // service.
  std::string_view file = {};
  std::string_view content() const { return file.empty() ? std::string_view(body) : file; }
};

// The login that a route requires while authentication is on.
enum class Login : uint8_t {
  kNone,         // everybody
  kServerToken,  // the server's own token: Authorization: Bearer <token>
  kApiKey,       // an API key, in the same header
};
// Every route of the server. A path that ends with a slash stands for all paths below it.
struct HttpRoute {
  std::string_view path;
  Login login;
};
inline constexpr std::array kHttpRoutes = {
    HttpRoute{"/", Login::kNone},       // the page, and only it
    HttpRoute{"/page/", Login::kNone},  // the page's files; they hold no user's data
    HttpRoute{"/healthz", Login::kNone}, HttpRoute{"/metrics", Login::kServerToken},
    HttpRoute{"/apps/", Login::kApiKey},  // and the prefixes of server.routes
};

// A daemon's port: every request on it goes to one inferlet, on behalf of the user who opened it.
struct Door {
  std::string program;
  std::string username;
  std::string input;
};

// Finds the inferlet that answers a request, and the user on whose behalf it does. A Call without a
// program means that the request is for the server itself. `door` is null on the server's own port.
std::variant<Call, HttpAnswer> FindCall(Service& service, const Door* door, const Asked& asked);

// The server's own routes.
HttpAnswer AnswerHttp(Service& service, const Asked& asked);

// Returns why a request is refused for the web page that may have sent it. Empty: it may be
// answered. `door` is as for FindCall.
std::string RefusalOf(const Service& service, const Door* door, const Asked& asked);

}  // namespace pie::server
