// The answers to a client that watches, as JSON: its user's own processes, their pages, accounts
// and text, and counts of the whole engine that name no user. Nothing here waits for a device: the
// schedulers make views of themselves when they are asked, a few times a second at most
// (sched/view.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/service.h"

namespace pie::server {

// The record of the query `watch`: the time of the last batch that the client knows, in
// microseconds. Empty: 0.
Result<uint64_t> WatchedSince(std::string_view record);
// The answer to the query `watch`. Any thread; takes milliseconds for a user with thousands of
// processes.
std::string DescribeEngine(Service& service, const std::string& user, uint64_t since_us);

// The last answer to `watch` of one connection. A client that asks too often gets it again. IO
// thread.
class Watching {
 public:
  const std::string* recent() const;  // null: it is too old, or there is none
  void Keep(std::string answer);

 private:
  std::optional<std::chrono::steady_clock::time_point> answered_;
  std::string answer_;
};

// The query `output`: the text of one process. `record` is its id, a space, and the place from
// which on the client wants the text. Any thread; takes a millisecond for a long text.
Result<std::string> WatchedOutput(Service& service, std::string_view user, std::string_view record);

// The query `program`: an installed program, with the parameters of its manifest. Reads files.
Result<std::string> DescribeProgram(Service& service, std::string_view program);

// An MCP server that inferlets of a user can reach.
struct McpServerRef {
  std::string name;
  bool of_config;  // false: one of the user's clients runs it
};

// The query `library`: programs, and the user's snapshots, adapters and MCP servers. Reads files.
Result<std::string> DescribeLibrary(Service& service, std::string_view user,
                                    const std::vector<McpServerRef>& mcp_servers);
// The servers of the user's connected clients, then those of the config that the user sees. IO
// thread.
std::vector<McpServerRef> McpServersOf(Service& service, std::string_view user);

}  // namespace pie::server
