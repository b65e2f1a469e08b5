#include "host/mcp.h"

#include "model/json_text.h"

namespace pie::host {

McpError McpErrorFrom(std::string_view text) {
  constexpr size_t kMostMessageBytes = 64ull << 10;
  // The thread that parses it serves all clients.
  constexpr size_t kMostParsedBytes = 256ull << 10;
  if (text.size() > kMostParsedBytes) {
    return {.code = kMcpUnreachable,
            .message = fmt::format("mcp: the error has {} bytes; at most {} KiB are allowed",
                                   text.size(), kMostParsedBytes >> 10)};
  }
  const auto json = ParseJsonObject(text, "an error of an MCP server", kMcpJsonDepth);
  if (json && json->contains("message") && (*json)["message"].is_string()) {
    McpError error{.code = kMcpUnreachable, .message = (*json)["message"]};
    if (json->contains("code") && (*json)["code"].is_number_integer()) error.code = (*json)["code"];
    if (json->contains("data") && !(*json)["data"].is_null()) error.data = (*json)["data"].dump();
    return error;
  }
  return {.code = kMcpUnreachable, .message = std::string(text.substr(0, kMostMessageBytes))};
}

}  // namespace pie::host
