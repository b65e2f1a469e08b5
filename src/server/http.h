// The plain HTTP side, without a socket: a path and a header in, a status and a text out.
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

// `authorization` is that header, or empty.
HttpAnswer AnswerHttp(Service& service, std::string_view method, std::string_view path,
                      std::string_view authorization);

// May a page of `origin` (that header, or empty) open a WebSocket here? Without authentication only
// pages of this machine, or of the address that it asked for (`host`).
bool MayUpgrade(const Service& service, std::string_view origin, std::string_view host);

}  // namespace pie::server
