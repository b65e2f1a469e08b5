// Service: the state that all connections share. Owned by the server; each part says which threads
// may use it. `post` runs a function on the IO thread and may be called from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/work_queue.h"
#include "host/engine.h"
#include "host/users.h"
#include "server/auth.h"
#include "server/client_turns.h"
#include "server/limits.h"
#include "server/log.h"
#include "server/mcp_relay.h"
#include "server/page.h"
#include "server/programs.h"
#include "server/routes.h"
#include "server/sessions.h"
#include "server/web_access.h"

namespace pie::server {

class Daemons;

struct Service {
  static constexpr size_t kWorkThreads = 4;
  using Post = std::function<void(std::function<void()>)>;
  Service(host::Engine& the_engine, Registry& registry, Auth& the_auth, Log& the_log,
          const Limits& the_limits, size_t max_processes, Post the_post,
          Routes::Table the_routes = {}, Page the_page = {},
          WebAccess the_web = WebAccess({}, "localhost"))
      : engine(the_engine),
        auth(the_auth),
        log(the_log),
        limits(the_limits),
        post(std::move(the_post)),
        turns(post),
        routes(std::move(the_routes)),
        policies(routes.Prefixes()),
        page(std::move(the_page)),
        web(std::move(the_web)),
        kept_programs(std::make_shared<Programs>(the_engine, registry, limits.max_code_bytes)),
        programs(*kept_programs),
        sessions(the_engine, limits, max_processes),
        uploads(limits.max_uploads_bytes, engine.users().share()),
        known(limits.max_connections, engine.users().share()),
        requests(limits.max_http_requests, engine.users().share()),
        doors(limits.max_daemons, engine.users().share()),
        logins("pie-login", 1, limits.max_connections),
        handshakes("pie-tls", 1, limits.max_connections),
        work("pie-work", kWorkThreads, limits.max_queued_jobs) {
    // Guests may launch programs that are only on disk. The resolver holds a reference to the
    // programs, because guests may outlive the service for a moment.
    engine.SetResolver([kept = kept_programs](std::string_view program, host::Compiling compiling) {
      auto loaded = kept->Loaded(program);
      return loaded ? Result<std::optional<std::string>>(std::move(loaded))
                    : kept->Load(program, compiling);
    });
  }
  ~Service() { Stop(); }

  // Runs a job of a user on a work thread. If it returns nothing, it needs a compiler, and is run
  // again on a compiler's thread, so that lookups and launches do not wait for compilers. `done`
  // gets the result, on either thread. False if too many jobs wait.
  using Job = std::function<Result<std::optional<std::string>>(host::Compiling)>;
  using Done = std::function<void(Result<std::string>)>;
  bool Run(std::string_view user, Job job, Done done);
  // Waits for the jobs that run, and kills compilers.
  void Stop() {
    engine.StopCompiling();
    handshakes.Stop();
    logins.Stop();
    work.Stop();
  }

  host::Engine& engine;
  Auth& auth;
  Log& log;
  const Limits limits;
  const Post post;
  ClientTurns turns;  // in which messages are handled; IO thread
  const Routes routes;
  Policies policies;  // policies for documents of inferlets; IO thread
  const Page page;    // empty: there is no page
  const WebAccess web;
  const std::shared_ptr<Programs> kept_programs;
  Programs& programs;
  Sessions sessions;
  host::SharedBudget uploads;   // bytes that clients are sending
  host::SharedBudget known;     // connections of users
  host::SharedBudget requests;  // HTTP requests that inferlets answer
  host::SharedBudget doors;     // ports of daemons
  std::atomic<size_t> connections = 0;
  std::atomic<uint64_t> messages = 0;    // from clients
  std::atomic<uint64_t> bad_frames = 0;  // frames that were not valid messages
  std::atomic<uint64_t> refused = 0;     // connections beyond the limit
  std::atomic<uint64_t> launches = 0;
  // HTTP requests that inferlets answer. Shared, because an instance may outlive the service for a
  // moment.
  const std::shared_ptr<std::atomic<size_t>> exchanges = std::make_shared<std::atomic<size_t>>(0);
  std::atomic<size_t> answering = 0;   // of those, with an instance that has not ended
  Daemons* daemons = nullptr;          // IO thread; set by the server
  std::atomic<bool> draining = false;  // no new launches
  // The MCP relays of the connections that have MCP servers; IO thread.
  struct UsersRelay {
    std::string username;
    std::weak_ptr<McpRelay> relay;
  };
  std::vector<UsersRelay> relays;
  // The last members, because their jobs use the rest.
  WorkQueue logins;      // checks signatures
  WorkQueue handshakes;  // of TLS
  WorkQueue work;
};

}  // namespace pie::server
