// A client of Model Context Protocol servers that the client or the engine registered.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "inferlet/bindings.h"
#include "inferlet/result.h"

namespace inferlet::mcp {

// All answers are JSON texts, as the server gave them. Closed when destroyed.
class Session {
 public:
  explicit Session(pie::mcp::client::Session raw) : raw_(std::move(raw)) {}

  Result<std::string> ListTools() const;
  Result<std::string> CallTool(std::string_view name, std::string_view args_json) const;
  Result<std::string> ListResources() const;
  Result<std::string> ReadResource(std::string_view uri) const;
  Result<std::string> ListPrompts() const;
  Result<std::string> GetPrompt(std::string_view name, std::string_view args_json) const;

 private:
  pie::mcp::client::Session raw_;
};

std::vector<std::string> AvailableServers();
Result<Session> Connect(std::string_view name);

}  // namespace inferlet::mcp
