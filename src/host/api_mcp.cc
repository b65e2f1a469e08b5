// pie:mcp/client
#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/api.h"
#include "host/await.h"
#include "host/engine.h"
#include "host/mcp_pages.h"
#include "host/mcp_pool.h"
#include "model/json_text.h"

namespace pie::host {
namespace {

// Returns the places where a process finds servers: its client first, then the configuration.
std::vector<std::shared_ptr<McpServers>> SourcesOf(Process& process) {
  std::vector<std::shared_ptr<McpServers>> sources;
  if (process.options().mcp) sources.push_back(process.options().mcp);
  if (McpPool* pool = process.engine().mcp()) {
    sources.push_back(pool->Of(process.options().username));
  }
  return sources;
}

// Asks the session's server, and waits for its answer. An answer that is not JSON becomes an error,
// so a guest that parses it may rely on that.
Result<McpAnswer> Ask(Process& process, uint32_t handle, std::string_view method,
                      std::string_view params, Wait& wait) {
  const McpSession* session = PIE_TRY(process.handles().mcp_sessions.Get(handle));
  auto answer = Await<McpAnswer>(process, wait, [&] {
    return session->servers->Ask({.process_id = process.id(),
                                  .server = session->server,
                                  .method = method,
                                  .params = params});
  });
  if (!answer) return RefuseMcp(kMcpUnreachable, "mcp: " + answer.error().text);
  if (!*answer) return McpAnswer();  // the guest waits, and the bridge ignores this value
  if (**answer && !nlohmann::json::accept(***answer)) {
    return RefuseMcp(kMcpUnreachable, fmt::format("mcp: the answer of the server '{}' is not JSON",
                                                  session->server));
  }
  return **std::move(answer);
}

// A list of which the guest waits for a page.
struct Listing final : Waitable {
  Listing(std::string_view member, size_t most_bytes) : pages(member, most_bytes) {}
  McpPages pages;
  std::shared_ptr<Pending<McpAnswer>> page;
};

// Asks for the whole list, page by page. `kind` is "tools", "resources" or "prompts".
Result<McpAnswer> List(Process& process, uint32_t handle, std::string_view kind, Wait& wait) {
  const McpSession* session = PIE_TRY(process.handles().mcp_sessions.Get(handle));
  auto& calls = process.handles().calls;
  const auto ask = [&](const std::string& params) {
    return session->servers->Ask({.process_id = process.id(),
                                  .server = session->server,
                                  .method = fmt::format("{}/list", kind),
                                  .params = params});
  };
  if (!wait.has_ticket) {
    auto first = ask("{}");
    if (!first) return RefuseMcp(kMcpUnreachable, "mcp: " + first.error().text);
    auto listing = std::make_shared<Listing>(kind, process.engine().limits().max_mcp_result_bytes);
    listing->page = *std::move(first);
    wait.ticket = PIE_TRY(calls.Emplace(std::move(listing)));
    wait.has_ticket = true;
  }
  const auto listing = std::static_pointer_cast<Listing>(*PIE_TRY(calls.Get(wait.ticket)));
  const auto answered = [&]() -> Result<std::optional<McpAnswer>> {
    while (true) {
      if (!listing->page->ready()) return std::nullopt;
      McpAnswer answer = PIE_TRY(listing->page->Take());
      if (!answer) return std::optional(std::move(answer));
      if (!nlohmann::json::accept(*answer)) {
        return Fail(Code::kInvalid, "the answer of the server '{}' is not JSON", session->server);
      }
      const auto cursor = PIE_TRY(listing->pages.Add(*std::move(answer)));
      if (!cursor) return std::optional<McpAnswer>(listing->pages.Take());
      listing->page = PIE_TRY(ask(nlohmann::json{{"cursor", *cursor}}.dump()));
    }
  }();
  if (answered && !*answered) {
    wait.signal = listing->page->signal.raw();
    return McpAnswer();  // the guest waits, and the bridge ignores this value
  }
  calls.Remove(wait.ticket);
  if (!answered) return RefuseMcp(kMcpUnreachable, "mcp: " + answered.error().text);
  return **answered;
}

// Refuses arguments that are too long. This check comes before parsing, because parsed JSON takes
// many times the memory of its text.
std::optional<McpAnswer> RefuseLong(Process& process, size_t bytes) {
  const size_t most = process.engine().limits().max_mcp_request_bytes;
  if (bytes <= most) return std::nullopt;
  return RefuseMcp(
      kMcpInvalidParams,
      fmt::format("mcp: the request has {} bytes; at most {} KiB are allowed", bytes, most >> 10));
}

// Asks by a method that takes a name and a JSON object of arguments.
Result<McpAnswer> AskByName(Process& process, uint32_t session, std::string_view method,
                            std::string_view name, std::string_view args, Wait& wait) {
  if (wait.has_ticket) return Ask(process, session, method, {}, wait);
  if (auto refused = RefuseLong(process, name.size() + args.size())) return *std::move(refused);
  nlohmann::json params = {{"name", name}};
  if (args.find_first_not_of(" \t\r\n") != std::string_view::npos) {
    if (args != "null") {
      auto parsed =
          ParseJsonObject(args, "mcp: the arguments must be a JSON object", kMcpJsonDepth);
      if (!parsed) return RefuseMcp(kMcpInvalidParams, parsed.error().text);
      params["arguments"] = *std::move(parsed);
    }
  }
  return Ask(process, session, method, params.dump(), wait);
}

}  // namespace

Result<std::vector<std::string>> McpAvailableServers(Process& process) {
  std::vector<std::string> names;
  for (const auto& source : SourcesOf(process)) {
    for (std::string& name : source->Names()) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

Result<std::expected<uint32_t, McpError>> McpConnect(Process& process, std::string_view name) {
  std::string known;
  for (const auto& source : SourcesOf(process)) {
    const std::vector<std::string> names = source->Names();
    if (std::ranges::find(names, name) != names.end()) {
      return PIE_TRY(process.handles().mcp_sessions.Emplace(
          McpSession{.servers = source, .server = std::string(name)}));
    }
    for (const std::string& other : names) known += (known.empty() ? "" : ", ") + other;
  }
  return std::expected<uint32_t, McpError>(
      std::unexpect,
      McpError{.code = kMcpServerNotFound,
               .message = fmt::format(
                   "mcp: no server is named '{}'; {}", name.substr(0, 128),
                   known.empty() ? "the client of this inferlet has registered none, and the "
                                   "engine's configuration has none for this user"
                                 : "known: " + known)});
}

Result<McpAnswer> McpSessionListTools(Process& process, uint32_t session, Wait& wait) {
  return List(process, session, "tools", wait);
}
Result<McpAnswer> McpSessionListResources(Process& process, uint32_t session, Wait& wait) {
  return List(process, session, "resources", wait);
}
Result<McpAnswer> McpSessionListPrompts(Process& process, uint32_t session, Wait& wait) {
  return List(process, session, "prompts", wait);
}
Result<McpAnswer> McpSessionCallTool(Process& process, uint32_t session, std::string_view name,
                                     std::string_view args, Wait& wait) {
  return AskByName(process, session, "tools/call", name, args, wait);
}
Result<McpAnswer> McpSessionGetPrompt(Process& process, uint32_t session, std::string_view name,
                                      std::string_view args, Wait& wait) {
  return AskByName(process, session, "prompts/get", name, args, wait);
}
Result<McpAnswer> McpSessionReadResource(Process& process, uint32_t session, std::string_view uri,
                                         Wait& wait) {
  if (auto refused = RefuseLong(process, uri.size())) return *std::move(refused);
  return Ask(process, session, "resources/read", nlohmann::json{{"uri", uri}}.dump(), wait);
}

Status McpSessionDrop(Process& process, uint32_t session) {
  process.handles().mcp_sessions.Remove(session);
  return {};
}

}  // namespace pie::host
