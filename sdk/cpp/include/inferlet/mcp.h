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
  int32_t code = 0;
  std::string message;
  std::optional<std::string> data;  // JSON
  operator std::string() const { return message + " (code " + std::to_string(code) + ")"; }
};

template <class T>
using McpResult = std::expected<T, McpError>;

// All answers are JSON texts, as the server gave them. Closed when destroyed.
class Session {
 public:
  explicit Session(pie::mcp::client::Session raw) : raw_(std::move(raw)) {}

  McpResult<std::string> ListTools() const;
  McpResult<std::string> CallTool(std::string_view name, std::string_view args_json) const;
  McpResult<std::string> ListResources() const;
  McpResult<std::string> ReadResource(std::string_view uri) const;
  McpResult<std::string> ListPrompts() const;
  McpResult<std::string> GetPrompt(std::string_view name, std::string_view args_json) const;

 private:
  pie::mcp::client::Session raw_;
};

std::vector<std::string> AvailableServers();
McpResult<Session> Connect(std::string_view name);

}  // namespace inferlet::mcp
