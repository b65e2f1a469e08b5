#include "server/private_toml.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace pie::server {

Result<toml::table> ReadPrivateToml(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return toml::table();
    return Fail(Code::kInternal, "cannot read {}: {}", path, std::strerror(errno));
  }
  if ((status.st_mode & 077) != 0) {
    return Fail(Code::kInvalid, "{} can be read or written by others: run chmod 600 {}", path,
                path);
  }
  try {
    return toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return Fail(Code::kInvalid, "{}:{}: {}", path, error.source().begin.line, error.description());
  }
}

}  // namespace pie::server
