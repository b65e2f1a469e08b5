// Routes: which inferlet answers an HTTP path. `/apps/<name>/…` belongs to the installed inferlet
// of that name, which sees the rest of the path; a configured prefix such as `/v1` belongs to the
// inferlet that the config names, which sees the whole path.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pie::server {

struct Route {
  std::string program;
  std::string target;          // the path and query that the inferlet sees
  std::string prefix;          // the beginning of the paths that the inferlet answers
  bool shares_origin = false;  // a user who may install an inferlet chooses what is below /apps/
};

class Routes {
 public:
  // Prefix of a path → program.
  using Table = std::map<std::string, std::string>;
  explicit Routes(Table prefixes) : prefixes_(std::move(prefixes)) {}
  std::optional<Route> Find(std::string_view target) const;
  std::vector<std::string> Prefixes() const {
    std::vector<std::string> all;
    for (const auto& [prefix, program] : prefixes_) all.push_back(prefix);
    return all;
  }

 private:
  const Table prefixes_;
};

}  // namespace pie::server
