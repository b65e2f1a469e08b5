// McpServers: the MCP servers that a process can reach, and how it asks them. A process has those
// of the client that is attached to it (server/mcp_relay.h), which it passes on to its children,
// and those of the engine's configuration (host/mcp_pool.h).
#pragma once

#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/pending.h"
#include "pie_host_api.h"

namespace pie::host {

// The codes of errors that do not come from an MCP server. They are those of JSON-RPC, and three of
// the range that it leaves to implementations.
inline constexpr int kMcpInvalidParams = -32602;
inline constexpr int kMcpUnreachable = -32000;     // the server did not answer
inline constexpr int kMcpServerNotFound = -32001;  // no server of this name
inline constexpr int kMcpTimeout = -32003;

// How deeply the JSON of arguments and errors may be nested: the JSON library recurses.
inline constexpr uint32_t kMcpJsonDepth = 128;

using McpAnswer = std::expected<std::string, McpError>;  // the JSON of a result, or an error

// One request of a process.
struct McpRequest {
  std::string_view process_id;
  std::string_view server;
  std::string_view method;  // of the protocol: "tools/list", …
  std::string_view params;  // a JSON object
};

// The error that a text reports: a JSON-RPC error as JSON, or a plain text.
McpError McpErrorFrom(std::string_view text);

class McpServers {
 public:
  virtual ~McpServers() = default;
  // Both may be called from any thread and do not wait.
  virtual std::vector<std::string> Names() = 0;
  // Fails if the request cannot be sent now. A server that is not there is an answer.
  virtual Result<std::shared_ptr<Pending<McpAnswer>>> Ask(const McpRequest& request) = 0;
};

}  // namespace pie::host
