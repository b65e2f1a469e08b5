// McpServers: the MCP servers that a process can reach, and how it asks them. A process has those
// of the client that is attached to it (server/mcp_relay.h) and passes them on to its children.
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

using McpAnswer = std::expected<std::string, McpError>;  // the JSON of a result, or an error

// One request of a process.
struct McpRequest {
  std::string_view process_id;
  std::string_view server;
  std::string_view method;  // of the protocol: "tools/list", …
  std::string_view params;  // a JSON object
};

class McpServers {
 public:
  virtual ~McpServers() = default;
  // Both may be called from any thread and do not wait.
  virtual std::vector<std::string> Names() = 0;
  // Fails if the request cannot be sent now. A server that is not there is an answer.
  virtual Result<std::shared_ptr<Pending<McpAnswer>>> Ask(const McpRequest& request) = 0;
};

}  // namespace pie::host
