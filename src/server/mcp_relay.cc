#include "server/mcp_relay.h"

#include <vector>

#include "server/codec.h"
#include "server/users.h"

namespace pie::server {
void McpRelay::SetBudget(std::shared_ptr<host::ByteBudget> budget) {
  std::lock_guard lock(mutex_);
  budget_ = std::move(budget);
}

Status McpRelay::Register(std::string_view name, std::function<void()> wake) {
  if (Status good = CheckUsername(name); !good) {
    return Fail(Code::kInvalid,
                "the name of an MCP server must have 1 to {} bytes and no control characters",
                limits_.max_username_bytes);
  }
  std::lock_guard lock(mutex_);
  if (names_.size() >= limits_.max_mcp_servers && !names_.contains(name)) {
    return Fail(Code::kExhausted, "this client has registered {} MCP servers already",
                names_.size());
  }
  names_.emplace(name);
  wake_ = std::move(wake);
  return {};
}

std::vector<std::string> McpRelay::Names() {
  std::lock_guard lock(mutex_);
  return {names_.begin(), names_.end()};
}

Result<std::shared_ptr<host::Pending<host::McpAnswer>>> McpRelay::Ask(
    const host::McpRequest& request) {
  auto pending = std::make_shared<host::Pending<host::McpAnswer>>();
  std::function<void()> wake;
  {
    std::lock_guard lock(mutex_);
    if (!names_.contains(request.server)) {
      pending->Set(host::RefuseMcp(
          host::kMcpServerNotFound,
          fmt::format("mcp: the client no longer offers the server '{}'", request.server)));
      return pending;
    }
    if (request.params.size() > limits_.max_mcp_request_bytes) {
      return Fail(Code::kExhausted, "the request has {} bytes; at most {} KiB are allowed",
                  request.params.size(), limits_.max_mcp_request_bytes >> 10);
    }
    if (waiting_.size() >= limits_.max_mcp_requests) {
      return Fail(Code::kExhausted, "{} requests to MCP servers of this client wait already",
                  waiting_.size());
    }
    while (next_id_ == 0 || waiting_.contains(next_id_)) ++next_id_;
    const uint32_t id = next_id_++;
    Frame frame{.id = id,
                .bytes = EncodeMcpRequest(id, request.process_id, request.server, request.method,
                                          request.params),
                .charge = host::Charge(budget_)};
    if (!frame.charge.Grow(frame.bytes.size())) {
      return Fail(Code::kExhausted,
                  "too many bytes wait for the clients of this user to read them");
    }
    waiting_[id] = {
        pending, std::string(request.server),
        std::chrono::steady_clock::now() + std::chrono::seconds(limits_.mcp_timeout_secs)};
    frames_.push_back(std::move(frame));
    wake = wake_;
  }
  wake();
  return pending;
}

std::optional<std::string> McpRelay::Next() {
  std::lock_guard lock(mutex_);
  while (!frames_.empty()) {
    Frame frame = std::move(frames_.front());
    frames_.pop_front();
    if (waiting_.contains(frame.id)) return std::move(frame.bytes);
  }
  return std::nullopt;
}

void McpRelay::Answer(uint32_t corr_id, bool ok, std::string_view result) {
  std::shared_ptr<host::Pending<host::McpAnswer>> pending;
  {
    std::lock_guard lock(mutex_);
    auto found = waiting_.find(corr_id);
    if (found == waiting_.end()) return;
    pending = std::move(found->second.pending);
    waiting_.erase(found);
  }
  if (result.size() > limits_.max_mcp_result_bytes) {
    return pending->Set(
        host::RefuseMcp(host::kMcpUnreachable,
                        fmt::format("mcp: the result has {} bytes; at most {} MiB are allowed",
                                    result.size(), limits_.max_mcp_result_bytes >> 20)));
  }
  if (ok) return pending->Set(host::McpAnswer(std::string(result)));
  pending->Set(host::McpAnswer(std::unexpect, host::McpErrorFrom(result)));
}

void McpRelay::Expire(Time now) {
  std::vector<Waiting> late;
  {
    std::lock_guard lock(mutex_);
    std::erase_if(waiting_, [&](const auto& entry) {
      const Waiting& waiting = entry.second;
      if (waiting.pending.use_count() == 1) return true;  // its process is gone
      if (waiting.deadline > now) return false;
      late.push_back(waiting);
      return true;
    });
    // Without this, requests would pile up while the client does not read.
    std::erase_if(frames_, [&](const Frame& frame) { return !waiting_.contains(frame.id); });
  }
  for (const Waiting& waiting : late) {
    waiting.pending->Set(host::RefuseMcp(
        host::kMcpTimeout, fmt::format("mcp: the server '{}' did not answer within {} s",
                                       waiting.server, limits_.mcp_timeout_secs)));
  }
}

void McpRelay::Close() {
  std::map<uint32_t, Waiting> left;
  {
    std::lock_guard lock(mutex_);
    names_.clear();
    frames_.clear();
    left.swap(waiting_);
  }
  for (const auto& [id, waiting] : left) {
    waiting.pending->Set(host::RefuseMcp(
        host::kMcpUnreachable,
        fmt::format("mcp: the client that runs the server '{}' has disconnected", waiting.server)));
  }
}

}  // namespace pie::server
