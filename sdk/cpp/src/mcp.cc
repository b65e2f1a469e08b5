#include "inferlet/mcp.h"

namespace inferlet {

using detail::Text;
using detail::Texts;

namespace mcp {

namespace host = pie::mcp::client;

namespace {

std::unexpected<std::string> ToError(const pie::mcp::types::Error& error) {
  return Error(Text(error.message) + " (code " + std::to_string(error.code) + ")");
}

Result<std::string> ToResult(const std::expected<wit::string, pie::mcp::types::Error>& result) {
  if (!result) return ToError(result.error());
  return Text(*result);
}

}  // namespace

std::vector<std::string> AvailableServers() {
  return Texts(host::AvailableServers());
}

Result<Session> Connect(std::string_view name) {
  auto session = host::Connect(name);
  if (!session) return ToError(session.error());
  return Session(*std::move(session));
}

Result<std::string> Session::ListTools() const {
  return ToResult(raw_.ListTools());
}
Result<std::string> Session::CallTool(std::string_view name, std::string_view args_json) const {
  return ToResult(raw_.CallTool(name, args_json));
}
Result<std::string> Session::ListResources() const {
  return ToResult(raw_.ListResources());
}
Result<std::string> Session::ReadResource(std::string_view uri) const {
  return ToResult(raw_.ReadResource(uri));
}
Result<std::string> Session::ListPrompts() const {
  return ToResult(raw_.ListPrompts());
}
Result<std::string> Session::GetPrompt(std::string_view name, std::string_view args_json) const {
  return ToResult(raw_.GetPrompt(name, args_json));
}

}  // namespace mcp

}  // namespace inferlet
