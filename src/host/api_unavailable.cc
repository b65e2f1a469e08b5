// Interfaces whose engine side does not exist in this build: MCP. Every function of them answers
// with an error that says so.
#include "host/api.h"

namespace pie::host {
namespace {

template <class T>
std::expected<T, McpError> NoMcp() {
  constexpr int kServerNotFound = -32001;
  return std::unexpected(
      McpError{.code = kServerNotFound,
               .message = "mcp: no server is registered; this engine relays none yet"});
}

}  // namespace

Result<std::vector<std::string>> McpAvailableServers(Process&) {
  return std::vector<std::string>();
}
Result<std::expected<uint32_t, McpError>> McpConnect(Process&, std::string_view) {
  return NoMcp<uint32_t>();
}
Result<std::expected<std::string, McpError>> McpSessionListTools(Process&, uint32_t) {
  return NoMcp<std::string>();
}
Result<std::expected<std::string, McpError>> McpSessionCallTool(Process&, uint32_t,
                                                                std::string_view,
                                                                std::string_view) {
  return NoMcp<std::string>();
}
Result<std::expected<std::string, McpError>> McpSessionListResources(Process&, uint32_t) {
  return NoMcp<std::string>();
}
Result<std::expected<std::string, McpError>> McpSessionReadResource(Process&, uint32_t,
                                                                    std::string_view) {
  return NoMcp<std::string>();
}
Result<std::expected<std::string, McpError>> McpSessionListPrompts(Process&, uint32_t) {
  return NoMcp<std::string>();
}
Result<std::expected<std::string, McpError>> McpSessionGetPrompt(Process&, uint32_t,
                                                                 std::string_view,
                                                                 std::string_view) {
  return NoMcp<std::string>();
}
Status McpSessionDrop(Process&, uint32_t) {
  return {};
}

}  // namespace pie::host
