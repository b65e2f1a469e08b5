// The HTTP routes, without a socket: a path and a header in, a status and a text out.
#pragma once

#include <string>
#include <string_view>

#include "server/service.h"

namespace pie::server {

struct HttpAnswer {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

// `authorization` is the value of that header, or empty.
HttpAnswer AnswerHttp(Service& service, std::string_view method, std::string_view path,
                      std::string_view authorization);

// Returns whether a web page from `origin` (the value of that header, or empty) may open a
// WebSocket. While authentication is off, only pages of this machine or of the address in `host`
// may.
bool MayUpgrade(const Service& service, std::string_view origin, std::string_view host);

}  // namespace pie::server
