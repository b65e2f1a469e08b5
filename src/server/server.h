// Server: the port. WebSocket for clients, and over the same port GET /healthz and GET /metrics.
// One IO thread carries all sockets; nothing on it waits. Start, then Wait; Drain from any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/auth.h"
#include "server/limits.h"
#include "server/log.h"
#include "server/registry.h"
#include "server/service.h"

namespace pie::server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  uint16_t port = 8080;           // 0 = any that is free
  std::string tls_cert, tls_key;  // PEM files; empty = no TLS
  size_t max_processes = 0;       // that run at once; 0 = the engine's own limit
  uint32_t drain_secs = 30;       // how long processes have to end when the server is told to stop
  Limits limits;
};

class Server {
 public:
  // Bound and listening when it returns. An address that others can reach needs authentication.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options, host::Engine& engine,
                                               Registry& registry, Auth& auth, Log& log);
  ~Server();

  uint16_t port() const;
  Service& service();
  // No new connections and launches; when all processes have ended (or the time is over, and they
  // are cancelled) all connections are closed. Wait returns then.
  void Drain();
  void Wait();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Routes that are answered to anybody. /metrics is not among them while authentication is on: it
// wants `Authorization: Bearer <the internal token>`.
inline constexpr std::string_view kOpenRoutes[] = {"/healthz"};

}  // namespace pie::server
