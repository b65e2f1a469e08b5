// Server: the listening port. Clients connect by WebSocket; the page, GET /healthz and GET /metrics
// use the same port. One IO thread serves all sockets and never blocks. Call Start, then Wait;
// Drain may be called from any thread.
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
  uint16_t port = 8080;           // 0: any free port
  std::string tls_cert, tls_key;  // PEM files; empty: no TLS
  size_t max_processes = 0;       // running at the same time; 0: the engine's own limit
  Routes::Table routes;           // prefixes of HTTP paths, and the inferlets that answer them
  WebAccess::Options web;         // which web pages may send requests
  Page page;                      // the page that a browser gets at the root; empty: none
  uint32_t drain_secs = 30;       // time that processes have to end when the server shuts down
  Limits limits;
};

class Server {
 public:
  // Binds and listens before it returns. An address that others can reach needs authentication.
  static Result<std::unique_ptr<Server>> Start(ServerOptions options, host::Engine& engine,
                                               Registry& registry, Auth& auth, Log& log);
  ~Server();

  uint16_t port() const;
  Service& service();
  // Refuses new connections and launches. When all processes have ended, or are cancelled after
  // drain_secs, it closes all connections, and Wait returns.
  void Drain();
  void Wait();

 private:
  struct Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pie::server
