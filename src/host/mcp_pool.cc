#include "host/mcp_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "abi/out.h"
#include "abi/text.h"

namespace pie::host {
namespace {

using abi::ToStr;
using abi::View;

// Takes a line of a server's stderr.
void Log(pie_bridge::Str server, pie_bridge::Str line) {
  fmt::print(stderr, "mcp {}: {}\n", View(server), View(line));
}

std::vector<std::string> Pairs(const std::map<std::string, std::string>& entries, char mark) {
  std::vector<std::string> pairs;
  for (const auto& [name, value] : entries) pairs.push_back(name + mark + value);
  return pairs;
}

bool Sees(const McpServerConfig& server, std::string_view user) {
  return server.users.empty() || std::ranges::find(server.users, user) != server.users.end();
}

// A server's configuration as the bridge takes it. It borrows from `config`.
class Borrowed {
 public:
  explicit Borrowed(const McpServerConfig& config)
      : env_(Pairs(config.env, '=')),
        headers_(Pairs(config.headers, ':')),
        command_list_(ToList(config.command)),
        env_list_(ToList(env_)),
        header_list_(ToList(headers_)),
        raw{.name = ToStr(config.name),
            .command = {command_list_.data(), command_list_.size()},
            .env = {env_list_.data(), env_list_.size()},
            .url = ToStr(config.url),
            .headers = {header_list_.data(), header_list_.size()},
            .timeout_ms = config.timeout_ms} {}

 private:
  static std::vector<pie_bridge::Str> ToList(const std::vector<std::string>& texts) {
    std::vector<pie_bridge::Str> list;
    for (const std::string& text : texts) list.push_back(ToStr(text));
    return list;
  }
  const std::vector<std::string> env_, headers_;
  const std::vector<pie_bridge::Str> command_list_, env_list_, header_list_;

 public:
  const pie_bridge::McpServer raw;
};

}  // namespace

// A request in flight. The guest that waits owns it: when the guest ends, the server is told.
struct McpPool::Asked {
  ~Asked() {
    {
      std::lock_guard lock(in_flight->mutex);
      const auto found = in_flight->by_user.find(user);
      if (--found->second == 0) in_flight->by_user.erase(found);
    }
    if (const auto alive = pool.lock()) pie_bridge::pie_mcp_cancel(alive->raw_, id);
  }
  Pending<McpAnswer> pending;
  std::weak_ptr<McpPool> pool;
  uint64_t id;
  std::shared_ptr<InFlight> in_flight;
  std::string user;
  size_t max_result_bytes;
};

// The servers of the pool that one user sees.
class McpPool::View final : public McpServers {
 public:
  View(std::shared_ptr<McpPool> pool, std::string user)
      : pool_(std::move(pool)), user_(std::move(user)) {}
  std::vector<std::string> Names() override {
    std::vector<std::string> names;
    for (const McpServerConfig& server : pool_->servers_) {
      if (Sees(server, user_)) names.push_back(server.name);
    }
    return names;
  }
  Result<std::shared_ptr<Pending<McpAnswer>>> Ask(const McpRequest& request) override {
    return pool_->Ask(user_, request);
  }

 private:
  const std::shared_ptr<McpPool> pool_;
  const std::string user_;
};

Result<std::shared_ptr<McpPool>> McpPool::Start(std::vector<McpServerConfig> servers,
                                                const Limits& limits) {
  std::vector<std::unique_ptr<Borrowed>> borrowed;
  std::vector<pie_bridge::McpServer> raws;
  for (const McpServerConfig& server : servers) {
    borrowed.push_back(std::make_unique<Borrowed>(server));
    raws.push_back(borrowed.back()->raw);
  }
  abi::Out out;
  auto* raw = pie_bridge::pie_mcp_start({raws.data(), raws.size()}, Log, out.get());
  if (raw == nullptr) return Fail(Code::kInvalid, "{}", out.error());
  return std::shared_ptr<McpPool>(new McpPool(raw, std::move(servers), limits));
}

McpPool::~McpPool() {
  pie_bridge::pie_mcp_free(raw_);
}

std::shared_ptr<McpServers> McpPool::Of(std::string user) {
  return std::make_shared<View>(shared_from_this(), std::move(user));
}

const McpServerConfig* McpPool::Find(std::string_view user, std::string_view name) const {
  const auto found = std::ranges::find(servers_, name, &McpServerConfig::name);
  return found != servers_.end() && Sees(*found, user) ? &*found : nullptr;
}

Result<std::shared_ptr<Pending<McpAnswer>>> McpPool::Ask(const std::string& user,
                                                         const McpRequest& request) {
  const McpServerConfig* const server = Find(user, request.server);
  if (server == nullptr) return Fail(Code::kNotFound, "no server is named '{}'", request.server);
  if (request.params.size() > limits_.max_mcp_request_bytes) {
    return Fail(Code::kExhausted, "the request has {} bytes; at most {} KiB are allowed",
                request.params.size(), limits_.max_mcp_request_bytes >> 10);
  }
  {
    std::lock_guard lock(in_flight_->mutex);
    size_t& count = in_flight_->by_user[user];
    if (count >= limits_.max_mcp_requests) {
      return Fail(Code::kExhausted, "{} requests of the user '{}' to MCP servers wait already",
                  count, user);
    }
    ++count;
  }
  const auto asked = std::make_shared<Asked>();
  asked->pool = weak_from_this();
  asked->id = next_id_++;
  asked->in_flight = in_flight_;
  asked->user = user;
  asked->max_result_bytes = limits_.max_mcp_result_bytes;
  pie_bridge::pie_mcp_ask(raw_, asked->id, static_cast<size_t>(server - servers_.data()),
                          ToStr(request.method), ToStr(request.params), OnAnswer,
                          new std::weak_ptr<Asked>(asked));
  return std::shared_ptr<Pending<McpAnswer>>(asked, &asked->pending);
}

void McpPool::OnAnswer(void* data, bool ok, pie_bridge::Str answer) {
  const std::unique_ptr<std::weak_ptr<Asked>> holder(static_cast<std::weak_ptr<Asked>*>(data));
  const auto asked = holder->lock();
  if (!asked) return;  // its guest has ended
  const std::string_view text = abi::View(answer);
  if (!ok) return asked->pending.Set(McpAnswer(std::unexpect, McpErrorFrom(text)));
  if (text.size() <= asked->max_result_bytes) {
    return asked->pending.Set(McpAnswer(std::string(text)));
  }
  asked->pending.Set(McpAnswer(
      std::unexpect,
      McpError{.code = kMcpUnreachable,
               .message = fmt::format("mcp: the result has {} bytes; at most {} MiB are allowed",
                                      text.size(), asked->max_result_bytes >> 20)}));
}

}  // namespace pie::host
