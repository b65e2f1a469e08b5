// A client of Model Context Protocol servers that the client or the engine registered.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/result.h"

namespace inferlet::mcp {

// A JSON-RPC error of a server, or why there is no answer. PIE_TRY makes a text of it.
struct McpError {
  // The code of JSON-RPC.
  int32_t code = 0;
  // The server's text, or why there is no answer.
  std::string message;
  std::optional<std::string> data;  // JSON
  // The message and the code as one text.
  operator std::string() const { return message + " (code " + std::to_string(code) + ")"; }
};

// A value, or the error of the server.
template <class T>
using McpResult = std::expected<T, McpError>;

// All answers are JSON texts, as the server gave them. Closed when destroyed.
class Session {
 public:
  explicit Session(pie::mcp::client::Session raw) : raw_(std::move(raw)) {}

  // The server's tools.
  McpResult<std::string> ListTools() const;
  // Calls a tool. `args_json` is a JSON object of its arguments.
  McpResult<std::string> CallTool(std::string_view name, std::string_view args_json) const;
  // The server's resources.
  McpResult<std::string> ListResources() const;
  // The content of a resource.
  McpResult<std::string> ReadResource(std::string_view uri) const;
  // The server's prompts.
  McpResult<std::string> ListPrompts() const;
  // A prompt, filled in. `args_json` is a JSON object of its arguments.
  McpResult<std::string> GetPrompt(std::string_view name, std::string_view args_json) const;

 private:
  pie::mcp::client::Session raw_;
};

// The names of the servers that this inferlet may connect to.
std::vector<std::string> AvailableServers();
// Opens a session with a server. An error when there is no server of this name.
McpResult<Session> Connect(std::string_view name);

}  // namespace inferlet::mcp
