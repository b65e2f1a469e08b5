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

}  // namespace pie::server
