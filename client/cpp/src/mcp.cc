#include "mcp.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <system_error>

#include "child.h"

namespace pie_client {
namespace {

using Json = McpServer::Json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kMaxLineBytes = 8 << 20;  // the longest message of a server
constexpr int kMaxDepth = 128;             // of its nesting: the JSON library recurses
constexpr milliseconds kStart = seconds(30);
constexpr milliseconds kRequest = seconds(60);
constexpr milliseconds kStop = seconds(2);
constexpr milliseconds kMaxPause = seconds(10);
constexpr auto kStable = seconds(60);  // a server that ran for this long restarts without a pause
constexpr const char* kProtocol = "2025-06-18";
constexpr int kMethodNotFound = -32601;
constexpr int kInvalidParams = -32602;
constexpr int kUnreachable = -32000;
constexpr int kTimeout = -32003;

// Returns nothing for a line that is no JSON object or is nested too deeply.
std::optional<Json> Parse(std::string_view line) {
  struct TooDeep {};
  const auto watch = [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) throw TooDeep();
    return true;
  };
  try {
    Json message = Json::parse(line, watch, false);
    if (message.is_object()) return message;
  } catch (const TooDeep&) {
  }
  return std::nullopt;
}

McpError ErrorOf(const Json& error) {
  const auto code = error.find("code");
  const auto text = error.find("message");
  const auto data = error.find("data");
  return {code != error.end() && code->is_number_integer() ? code->get<int>() : kUnreachable,
          text != error.end() && text->is_string() ? text->get<std::string>() : error.dump(),
          data != error.end() ? data->dump() : ""};
}

Json ToJson(const McpError& error) {
  Json json = {{"code", error.code}, {"message", error.what()}};
  if (!error.data.empty()) json["data"] = Json::parse(error.data);
  return json;
}

}  // namespace

class McpServer::Running : public std::enable_shared_from_this<Running> {
 public:
  Running(const asio::any_io_executor& executor, std::string name,
          const std::vector<std::string>& command)
      : name_(std::move(name)), child_(executor, command) {}

  void Begin(const asio::any_io_executor& executor) {
    asio::co_spawn(executor, ReadLoop(shared_from_this()), asio::detached);
    asio::co_spawn(executor, WriteLoop(shared_from_this()), asio::detached);
  }

  bool ended() const { return !why_.empty(); }

  void Send(const Json& message) {
    writes_.push_back(message.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    to_write_.Ring();
  }

  asio::awaitable<Json> Ask(std::string method, Json params, milliseconds limit) {
    const auto self = shared_from_this();
    if (ended()) throw Gone();
    const int64_t number = ++number_;
    const auto answer = std::make_shared<std::optional<Json>>();
    answers_[number] = answer;
    Send({{"jsonrpc", "2.0"}, {"id", number}, {"method", method}, {"params", std::move(params)}});
    const bool in_time = co_await came_.Wait(limit, [&] { return answer->has_value() || ended(); });
    answers_.erase(number);
    if (answer->has_value()) {
      Json& message = **answer;
      if (message.contains("error") && message["error"].is_object()) {
        throw ErrorOf(message["error"]);
      }
      co_return message.contains("result") ? std::move(message["result"]) : Json();
    }
    if (in_time) throw Gone();
    const Json cancelled = {{"requestId", number}, {"reason", "timed out"}};
    Send({{"jsonrpc", "2.0"}, {"method", "notifications/cancelled"}, {"params", cancelled}});
    throw McpError(kTimeout, "the MCP server '" + name_ + "' did not answer within " +
                                 std::to_string(limit.count() / 1000) + " s");
  }

  asio::awaitable<void> Stop() {
    const auto self = shared_from_this();
    child_.CloseInput();
    co_await came_.Wait(kStop, [&] { return ended(); });
    End("it was stopped");
  }

 private:
  McpError Gone() const {
    return {kUnreachable, "the MCP server '" + name_ + "' is not running: " + why_};
  }

  void End(const std::string& why) {
    if (ended()) return;
    why_ = why;
    child_.Kill();
    came_.Ring();
    to_write_.Ring();
  }

  static asio::awaitable<void> ReadLoop(std::shared_ptr<Running> self) {
    std::string why = "it has ended";
    try {
      while (true) self->Take(co_await self->child_.ReadLine(kMaxLineBytes));
    } catch (const boost::system::system_error& error) {
      if (error.code() == asio::error::not_found) {
        why = "it sent a line of more than " + std::to_string(kMaxLineBytes >> 20) + " MiB";
      }
    }
    self->End(why);
  }

  static asio::awaitable<void> WriteLoop(std::shared_ptr<Running> self) {
    try {
      while (!self->ended()) {
        if (self->writes_.empty()) {
          co_await self->to_write_.Wait({},
                                        [&] { return self->ended() || !self->writes_.empty(); });
          continue;
        }
        const std::string line = std::move(self->writes_.front());
        self->writes_.pop_front();
        co_await self->child_.Write(line);
      }
    } catch (const boost::system::system_error&) {
      // The end of the program's output tells why.
    }
  }

  void Take(std::string_view line) {
    auto message = Parse(line);
    if (!message) return;  // some servers print other text too
    const Json id = message->value("id", Json());
    if (message->contains("method")) {
      if (!id.is_null()) Send(Answer(id, (*message)["method"]));
      return;
    }
    const auto found = id.is_number_integer() ? answers_.find(id.get<int64_t>()) : answers_.end();
    if (found == answers_.end()) return;
    *found->second = std::move(*message);
    came_.Ring();
  }

  // Returns this client's answer to a request of a server. The client supports only ping.
  static Json Answer(const Json& id, const Json& method) {
    if (method == "ping") return {{"jsonrpc", "2.0"}, {"id", id}, {"result", Json::object()}};
    const Json error = {{"code", kMethodNotFound}, {"message", "this client has no such method"}};
    return {{"jsonrpc", "2.0"}, {"id", id}, {"error", error}};
  }

  const std::string name_;
  Child child_;
  std::string why_;  // the program has ended; empty while it runs
  int64_t number_ = 0;
  std::map<int64_t, std::shared_ptr<std::optional<Json>>> answers_;
  Bell came_;  // an answer, or the end
  std::deque<std::string> writes_;
  Bell to_write_;
};

asio::awaitable<void> McpServer::Start() {
  co_await started_.Wait({}, [&] { return !starting_; });
  if (running_ && !running_->ended()) co_return;
  starting_ = true;
  std::exception_ptr fault;
  try {
    co_await StartNow();
  } catch (...) {
    fault = std::current_exception();
  }
  starting_ = false;
  started_.Ring();
  if (fault) std::rethrow_exception(fault);
}

asio::awaitable<void> McpServer::StartNow() {
  const auto executor = co_await asio::this_coro::executor;
  running_ = nullptr;
  if (std::chrono::steady_clock::now() - started_at_ > kStable) failures_ = 0;
  if (failures_ > 0) {
    const milliseconds pause(100 << std::min(failures_, 16));
    asio::steady_timer timer(executor, std::min(pause, kMaxPause));
    co_await timer.async_wait(asio::use_awaitable);
  }
  ++failures_;
  started_at_ = std::chrono::steady_clock::now();
  try {
    running_ = std::make_shared<Running>(executor, name_, command_);
  } catch (const std::system_error& error) {
    throw McpError(kUnreachable, "cannot start the MCP server '" + name_ + "': " + error.what());
  }
  running_->Begin(executor);
  const Json client = {{"name", "pie-client"}, {"version", "0.1.0"}};
  Json hello = {
      {"protocolVersion", kProtocol}, {"capabilities", Json::object()}, {"clientInfo", client}};
  std::exception_ptr fault;
  try {
    co_await running_->Ask("initialize", std::move(hello), kStart);
  } catch (const McpError&) {
    fault = std::current_exception();
  }
  if (fault) {
    co_await Stop();
    std::rethrow_exception(fault);
  }
  running_->Send({{"jsonrpc", "2.0"}, {"method", "notifications/initialized"}});
}

asio::awaitable<Json> McpServer::Request(std::string method, Json params) {
  co_await Start();
  co_return co_await running_->Ask(std::move(method), std::move(params), kRequest);
}

asio::awaitable<void> McpServer::Stop() {
  if (const auto running = std::exchange(running_, nullptr)) co_await running->Stop();
}

asio::awaitable<std::pair<bool, std::string>> RelayMcp(const McpServers& servers, Json frame) {
  const std::string name = frame.value("server_name", "");
  const std::string text = frame.value("params", "");
  const auto found = servers.find(name);
  try {
    if (found == servers.end()) {
      throw McpError(kUnreachable, "this client runs no server '" + name + "'");
    }
    auto params = Parse(text.empty() ? "{}" : text);
    if (!params) throw McpError(kInvalidParams, "the parameters are not a JSON object");
    const auto server = found->second;  // the map may change while it answers
    const Json result = co_await server->Request(frame.value("method", ""), std::move(*params));
    co_return std::pair(true, result.dump(-1, ' ', false, Json::error_handler_t::replace));
  } catch (const McpError& error) {
    co_return std::pair(false, ToJson(error).dump(-1, ' ', false, Json::error_handler_t::replace));
  }
}

}  // namespace pie_client
