#include "cli/server_config.h"

#include "cli/config_file.h"
#include "cli/config_table.h"

namespace pie::cli {

Result<ServerConfig> ReadServerConfig(const std::string& given) {
  ServerConfig config;
  const auto file = PIE_TRY(ReadConfigFile(given));
  if (!file) return config;
  const auto& [path, root] = *file;
  server::ServerOptions& options = config.server;
  server::Limits& limits = options.limits;
  Table server(root.get("server"), "server", path);
  server.Read("host", &options.host);
  server.Read("port", &options.port);
  server.Read("max_concurrent_processes", &options.max_processes);
  server.Read("max_connections", &limits.max_connections, {.least = 1});
  server.Read("drain_secs", &options.drain_secs, {.most = 86'400});
  server.Read("auth_timeout_secs", &limits.auth_timeout_secs, {.least = 1, .most = 86'400});
  server.Read("ping_secs", &limits.idle_ping_secs, {.least = 1, .most = 86'400});
  limits.pong_timeout_secs = limits.idle_ping_secs;
  server.Read("tls_cert", &options.tls_cert);
  server.Read("tls_key", &options.tls_key);
  server.Read("routes", &options.routes);
  server.Read("page", &config.page);
  server.Read("allowed_hosts", &options.web.hosts);
  server.Read("allowed_origins", &options.web.origins);
  server.Read("trusted_apps", &options.web.trusted_apps);
  for (const auto& [prefix, program] : options.routes) {
    if (!prefix.starts_with('/') || prefix.starts_with("/apps")) {
      return Fail(Code::kInvalid,
                  "{}: server.routes: '{}' must be a path that begins with a slash and is not "
                  "/apps, such as \"/v1\"",
                  path, prefix);
    }
  }
  for (const std::string& host : options.web.hosts) {
    if (host.empty() || host.find_first_of("/:* ") != std::string::npos) {
      return Fail(Code::kInvalid,
                  "{}: server.allowed_hosts: '{}' must be a name without a scheme and a port, such "
                  "as \"pie.example\"",
                  path, host);
    }
  }
  for (const std::string& origin : options.web.origins) {
    const size_t scheme = origin.find("://");
    if (scheme == 0 || scheme == std::string::npos || scheme + 3 == origin.size() ||
        origin.find_first_of("/* ", scheme + 3) != std::string::npos) {
      return Fail(Code::kInvalid,
                  "{}: server.allowed_origins: '{}' must be a scheme and a host, and a port if it "
                  "is not the scheme's own, such as \"https://pie.example:8443\"",
                  path, origin);
    }
  }
  Table auth(root.get("auth"), "auth", path);
  auth.Read("enabled", &config.auth);
  Table telemetry(root.get("telemetry"), "telemetry", path);
  telemetry.Read("json_logs", &config.json_logs);
  telemetry.Read("log_level", &config.log_level);
  Table runtime(root.get("runtime"), "runtime", path);
  runtime.Read("max_upload_mb", &limits.max_upload_bytes, {1, 4096, 1 << 20});
  for (const Table* table : {&server, &auth, &telemetry, &runtime}) {
    if (!table->problem().empty()) return Fail(Code::kInvalid, "{}", table->problem());
  }
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return Fail(Code::kInvalid, "{}: server.tls_cert and server.tls_key must be set together",
                path);
  }
  return config;
}

}  // namespace pie::cli
