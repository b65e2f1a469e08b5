// McpPool: the MCP servers of the engine's configuration, `[mcp.<name>]`. The engine runs a server
// that is a program and asks a server that has a URL; the bridge speaks the protocol
// (bridge/src/mcp). A server starts with the first request to it, and again when it has died. The
// pool decides which users see a server, and how many requests a user may have in flight.
//
// Any thread may use it. Nothing here waits for a server. Destroying it ends the servers.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/limits.h"
#include "host/mcp.h"
#include "pie_bridge.h"

namespace pie::host {

struct McpServerConfig {
  std::string name;
  std::vector<std::string> command;  // the program and its arguments; empty: the server has a URL
  std::map<std::string, std::string> env;  // for the program, besides the engine's own
  std::string url;
  std::map<std::string, std::string> headers;  // of every HTTP request
  std::vector<std::string> users;              // the users who see it; empty: all users
  uint64_t timeout_ms = 60'000;                // of one request
};

class McpPool : public std::enable_shared_from_this<McpPool> {
 public:
  // Fails on a URL or a header that is not valid.
  static Result<std::shared_ptr<McpPool>> Start(std::vector<McpServerConfig> servers,
                                                const Limits& limits);
  ~McpPool();
  McpPool(const McpPool&) = delete;
  McpPool& operator=(const McpPool&) = delete;

  // The servers that this user sees.
  std::shared_ptr<McpServers> Of(std::string user);

 private:
  class View;
  struct Asked;
  // Counts the requests in flight by user. It outlives the pool if a request does.
  struct InFlight {
    std::mutex mutex;
    std::map<std::string, size_t, std::less<>> by_user;
  };

  McpPool(pie_bridge::McpPool* raw, std::vector<McpServerConfig> servers, const Limits& limits)
      : raw_(raw), servers_(std::move(servers)), limits_(limits) {}
  // Null if there is no such server, or the user does not see it.
  const McpServerConfig* Find(std::string_view user, std::string_view name) const;
  Result<std::shared_ptr<Pending<McpAnswer>>> Ask(const std::string& user,
                                                  const McpRequest& request);
  static void OnAnswer(void* data, bool ok, pie_bridge::Str answer);

  pie_bridge::McpPool* const raw_;
  const std::vector<McpServerConfig> servers_;
  const Limits limits_;
  std::atomic<uint64_t> next_id_ = 1;
  const std::shared_ptr<InFlight> in_flight_ = std::make_shared<InFlight>();
};

}  // namespace pie::host
