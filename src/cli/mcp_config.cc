#include "cli/mcp_config.h"

#include <algorithm>

#include "cli/config_table.h"

namespace pie::cli {
namespace {

bool IsName(std::string_view name) {
  constexpr size_t kMostBytes = 64;
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kMostBytes && std::ranges::all_of(name, fits);
}

Result<host::McpServerConfig> ReadServer(std::string name, const toml::node& node,
                                         const std::string& path) {
  const auto wrong = [&](std::string_view what) {
    return Fail(Code::kInvalid, "{}:{}: mcp.{}: {}", path, node.source().begin.line, name, what);
  };
  if (!IsName(name)) {
    return wrong("the name must have 1 to 64 letters, digits, dots, dashes and underscores");
  }
  if (!node.is_table()) return wrong("write the server as a table, [mcp.<name>]");
  host::McpServerConfig server{.name = name};
  std::string program;
  std::vector<std::string> args;
  Table table(&node, "mcp", path);
  table.Read("command", &program);
  table.Read("args", &args);
  table.Read("env", &server.env);
  table.Read("url", &server.url);
  table.Read("headers", &server.headers);
  table.Read("users", &server.users);
  table.Read("timeout_secs", &server.timeout_ms, {1, 86'400, 1'000});
  if (!table.problem().empty()) return Fail(Code::kInvalid, "{}", table.problem());
  if (program.empty() == server.url.empty()) return wrong("set either command or url");
  if (program.empty() && (!args.empty() || !server.env.empty())) {
    return wrong("args and env belong to a command, and this server has a url");
  }
  if (!program.empty() && !server.headers.empty()) {
    return wrong("headers belong to a url, and this server has a command");
  }
  if (!program.empty()) {
    server.command = {std::move(program)};
    server.command.insert(server.command.end(), args.begin(), args.end());
  }
  return server;
}

}  // namespace

Result<std::vector<host::McpServerConfig>> ReadMcpServers(const toml::table& root,
                                                          const std::string& path) {
  std::vector<host::McpServerConfig> servers;
  const toml::node* const node = root.get("mcp");
  if (node == nullptr) return servers;
  const toml::table* const tables = node->as_table();
  if (tables == nullptr) {
    return Fail(Code::kInvalid, "{}:{}: write each MCP server as [mcp.<name>]", path,
                node->source().begin.line);
  }
  for (const auto& [name, server] : *tables) {
    servers.push_back(PIE_TRY(ReadServer(std::string(name.str()), server, path)));
  }
  return servers;
}

}  // namespace pie::cli
