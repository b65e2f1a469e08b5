// McpServers: the MCP servers that a process can reach, and how it asks them. A process can reach
// the servers of the client that is attached to it (server/mcp_relay.h), and so can its children.
// It can also reach the servers of the engine's configuration (host/mcp_pool.h).
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "host/pending.h"
#include "pie_host_api.h"

namespace pie::host {

// The codes of errors that do not come from an MCP server: one of JSON-RPC's own, and three of the
// range that JSON-RPC leaves to implementations.
inline constexpr int kMcpInvalidParams = -32602;
inline constexpr int kMcpUnreachable = -32000;     // the server did not answer
inline constexpr int kMcpServerNotFound = -32001;  // no server of this name
inline constexpr int kMcpTimeout = -32003;

// How deeply the JSON of arguments and errors may be nested: the JSON library recurses.
inline constexpr uint32_t kMcpJsonDepth = 128;

using McpAnswer = std::expected<std::string, McpError>;  // the JSON of a result, or an error

// An answer that is an error of the engine's own.
inline McpAnswer RefuseMcp(int code, std::string message) {
  return std::unexpected(McpError{.code = code, .message = std::move(message)});
}

// One request of a process.
struct McpRequest {
  std::string_view process_id;
  std::string_view server;
  std::string_view method;  // of the protocol: "tools/list", …
  std::string_view params;  // a JSON object
};

// Reads an error from a text, which is a JSON-RPC error or a plain message.
McpError McpErrorFrom(std::string_view text);

class McpServers {
 public:
  virtual ~McpServers() = default;
  // Any thread may call these two functions. They do not wait.
  virtual std::vector<std::string> Names() = 0;
  // Fails if the request cannot be sent now. If there is no such server, the answer is an error.
  virtual Result<std::shared_ptr<Pending<McpAnswer>>> Ask(const McpRequest& request) = 0;
};

}  // namespace pie::host
