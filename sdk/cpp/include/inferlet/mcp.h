// A client of Model Context Protocol servers: those that the inferlet's client has registered, and
// those of the engine's configuration.
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

// A JSON-RPC error of a server, or the reason why there is no answer. PIE_TRY makes a text of it.
struct McpError {
  // The code of JSON-RPC.
  int32_t code = 0;
  // The server's message, or the reason why there is no answer.
  std::string message;
  std::optional<std::string> data;  // the error's data as JSON, if there is any
  // The message, the code and the data as one text: `no (code -7): {"why":1}`.
  operator std::string() const {
    return message + " (code " + std::to_string(code) + ")" + (data ? ": " + *data : "");
  }
};

// A value, or the error of the server.
template <class T>
using McpResult = std::expected<T, McpError>;

// A session with a server. All answers are JSON texts, as the server sent them. The destructor
// closes the session.
class Session {
 public:
  explicit Session(pie::mcp::client::Session raw) : raw_(std::move(raw)) {}

  // Lists the server's tools.
  McpResult<std::string> ListTools() const;
  // Calls a tool. `args_json` is a JSON object of its arguments.
  McpResult<std::string> CallTool(std::string_view name, std::string_view args_json) const;
  // Lists the server's resources.
  McpResult<std::string> ListResources() const;
  // Returns the content of a resource.
  McpResult<std::string> ReadResource(std::string_view uri) const;
  // Lists the server's prompts.
  McpResult<std::string> ListPrompts() const;
  // Returns a prompt, filled in. `args_json` is a JSON object of its arguments.
  McpResult<std::string> GetPrompt(std::string_view name, std::string_view args_json) const;

 private:
  pie::mcp::client::Session raw_;
};

// Returns the names of the servers that this inferlet may connect to.
std::vector<std::string> AvailableServers();
// Opens a session with a server. Fails if there is no server of this name.
McpResult<Session> Connect(std::string_view name);

}  // namespace inferlet::mcp
