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

namespace pie::server {

struct HttpAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers = {};
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

// The parts of a request that the routes use: the first line, and the values of some headers, which
// may be empty.
struct Asked {
  std::string_view method, target, authorization, origin, host, if_none_match;
  std::string_view api_key = {};  // x-api-key, as clients of the Anthropic API send it
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

// Returns whether a web page from `origin` (the value of that header, or empty) may open a
// WebSocket. While authentication is off, only pages of this machine or of the address in `host`
// may.
bool MayUpgrade(const Service& service, std::string_view origin, std::string_view host);

}  // namespace pie::server
