#include "inferlet/mcp.h"

namespace inferlet {

using detail::Text;
using detail::Texts;

namespace mcp {

namespace host = pie::mcp::client;

namespace {

std::unexpected<McpError> ToError(const pie::mcp::types::Error& error) {
  McpError made{.code = error.code, .message = Text(error.message)};
  if (error.data) made.data = Text(*error.data);
  return std::unexpected(std::move(made));
}

McpResult<std::string> ToResult(const std::expected<wit::string, pie::mcp::types::Error>& result) {
  if (!result) return ToError(result.error());
  return Text(*result);
}

}  // namespace

std::vector<std::string> AvailableServers() {
  return Texts(host::AvailableServers());
}

McpResult<Session> Connect(std::string_view name) {
  auto session = host::Connect(name);
  if (!session) return ToError(session.error());
  return Session(*std::move(session));
}

McpResult<std::string> Session::ListTools() const {
  return ToResult(raw_.ListTools());
}
McpResult<std::string> Session::CallTool(std::string_view name, std::string_view args_json) const {
  return ToResult(raw_.CallTool(name, args_json));
}
McpResult<std::string> Session::ListResources() const {
  return ToResult(raw_.ListResources());
}
McpResult<std::string> Session::ReadResource(std::string_view uri) const {
  return ToResult(raw_.ReadResource(uri));
}
McpResult<std::string> Session::ListPrompts() const {
  return ToResult(raw_.ListPrompts());
}
McpResult<std::string> Session::GetPrompt(std::string_view name, std::string_view args_json) const {
  return ToResult(raw_.GetPrompt(name, args_json));
}

}  // namespace mcp

}  // namespace inferlet
