#include "server/routes.h"

namespace pie::server {
namespace {

constexpr std::string_view kApps = "/apps/";

}  // namespace

std::optional<Route> Routes::Find(std::string_view target) const {
  if (target.starts_with(kApps)) {
    const std::string_view rest = target.substr(kApps.size());
    const size_t end = std::min(rest.find_first_of("/?"), rest.size());
    if (end == 0) return std::nullopt;
    const std::string_view seen = rest.substr(end);
    return Route{.program = std::string(rest.substr(0, end)),
                 .target = seen.starts_with('/') ? std::string(seen) : '/' + std::string(seen),
                 .prefix = std::string(target.substr(0, kApps.size() + end)),
                 .shares_origin = true};
  }
  const std::string_view path = target.substr(0, target.find('?'));
  for (const auto& [prefix, program] : prefixes_) {
    const bool below =
        path.starts_with(prefix) &&
        (path.size() == prefix.size() || prefix.ends_with('/') || path[prefix.size()] == '/');
    if (below) return Route{.program = program, .target = std::string(target), .prefix = prefix};
  }
  return std::nullopt;
}

}  // namespace pie::server
