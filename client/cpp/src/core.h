// Core: the connection, the requests in flight and the Inbox, which a Client and its Processes
// share. Everything in it runs on one strand, so it needs no locks. The calls can be awaited on any
// executor: they do their work on the strand and resume the caller on its own executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "asio.h"
#include "inbox.h"
#include "mcp.h"
#include "pie_client/errors.h"
#include "pie_client/options.h"
#include "socket.h"

namespace pie_client {

class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(std::string uri, Options options) : uri_(std::move(uri)), options_(std::move(options)) {}

  // Connects, on the executor of the caller, and authenticates as the options say.
  asio::awaitable<void> Connect() { return Keep(shared_from_this(), ConnectHere()); }
  asio::awaitable<void> Close() { return Here(CloseAll()); }
  asio::awaitable<void> Reconnect() { return Here(ReconnectHere()); }
  // Closes the connection without waiting.
  void Leave();
  // Authenticates with a username and a key, or with a token.
  struct Login {
    std::string username;
    std::optional<ParsedPrivateKey> key;
    std::optional<std::string> token;
  };
  asio::awaitable<void> Authenticate(Login login) { return Here(LogIn(std::move(login))); }

  // Sends a message and returns the text of the answer. Throws if the server refuses it.
  asio::awaitable<std::string> Ask(std::string_view type, Json fields = Json::object()) {
    return Here(AskHere(std::string(type), std::move(fields)));
  }
  asio::awaitable<void> Do(std::string_view type, Json fields) {
    return Here(DoHere(std::string(type), std::move(fields)));
  }
  // Does the same for a message that attaches this client to a process, whose id is in `fields` or
  // in the answer.
  asio::awaitable<std::shared_ptr<Mailbox>> Listen(std::string_view type, Json fields,
                                                   std::optional<uint64_t> seen) {
    return Here(ListenHere(std::string(type), std::move(fields), seen));
  }
  // Does the same in chunks, one upload at a time, because the server assembles one at a time.
  asio::awaitable<void> Upload(std::string_view type, Json fields, std::string data,
                               Limit limit = {}) {
    return Here(UploadHere(std::string(type), std::move(fields), std::move(data),
                           limit.value_or(options_.timeout)));
  }
  asio::awaitable<Event> Take(std::shared_ptr<Mailbox> mailbox, Limit limit) {
    return Here(inbox_.Take(std::move(mailbox), limit));
  }
  // Starts an MCP server and offers it. `command` is its program and the arguments.
  asio::awaitable<void> RegisterMcp(std::string name, std::vector<std::string> command) {
    return Here(RegisterMcpHere(std::move(name), std::move(command)));
  }
  // Does not wait.
  void Discard(std::shared_ptr<Mailbox> mailbox);

 private:
  // Runs before any frame after the response is processed.
  using OnOk = std::function<void(const std::string&)>;
  struct Pending {
    OnOk on_ok;
    bool done = false;
    std::string result;
    std::exception_ptr fault;
    Bell bell;
  };
  using PendingPtr = std::shared_ptr<Pending>;
  class Request;

  // Runs the steps on the strand and returns to the caller's executor.
  template <class T>
  asio::awaitable<T> Here(asio::awaitable<T> steps) {
    if (!strand_) throw ConnectionLost("not connected: await Connect() first");
    return Hop(shared_from_this(), std::move(steps));
  }
  template <class T>
  static asio::awaitable<T> Hop(std::shared_ptr<Core> self, asio::awaitable<T> steps) {
    const auto strand = *self->strand_;
    co_return co_await asio::co_spawn(strand, Keep(std::move(self), std::move(steps)),
                                      asio::use_awaitable);
  }
  // The caller may be destroyed before the steps end.
  template <class T>
  static asio::awaitable<T> Keep(std::shared_ptr<Core> /*self*/, asio::awaitable<T> steps) {
    co_return co_await std::move(steps);
  }

  asio::awaitable<void> ConnectHere();
  asio::awaitable<void> Open();
  asio::awaitable<void> CloseHere();
  // Closes the connection, and stops the MCP servers.
  asio::awaitable<void> CloseAll();
  asio::awaitable<void> ReconnectHere();
  asio::awaitable<void> LogIn(Login login);
  asio::awaitable<void> Identify(Login login);
  asio::awaitable<std::string> AskHere(std::string type, Json fields, OnOk on_ok = nullptr);
  asio::awaitable<void> DoHere(std::string type, Json fields) {
    co_await AskHere(std::move(type), std::move(fields));
  }
  asio::awaitable<std::shared_ptr<Mailbox>> ListenHere(std::string type, Json fields,
                                                       std::optional<uint64_t> seen);
  asio::awaitable<void> UploadHere(std::string type, Json fields, std::string data, Limit limit);
  asio::awaitable<void> UploadChunks(std::string type, Json fields, std::string data, Limit limit);
  asio::awaitable<void> RegisterMcpHere(std::string name, std::vector<std::string> command);
  asio::awaitable<void> OfferMcp(std::string name);
  asio::awaitable<void> ServeMcp(Json frame);
  asio::awaitable<std::string> Finish(PendingPtr pending, Limit limit);

  // Queues a frame.
  void Send(const std::string& type, Json fields);
  asio::awaitable<void> ReadLoop(std::shared_ptr<Socket> socket);
  asio::awaitable<void> WriteLoop(std::shared_ptr<Socket> socket);
  void OnFrame(std::string_view data);
  void OnResponse(const Json& frame);
  // Breaks the connection. Pending calls throw the text.
  void Fail(const std::string& text);

  const std::string uri_;
  const Options options_;
  std::optional<asio::strand<asio::any_io_executor>> strand_;  // set once connected
  std::shared_ptr<Socket> socket_;
  std::exception_ptr fault_ = Fault<ConnectionLost>("not connected");  // why there is no socket
  size_t closes_ = 0;
  std::optional<Login> login_;
  uint32_t number_ = 0;
  std::map<uint32_t, PendingPtr> pending_;
  std::deque<std::string> writes_;
  Bell to_write_, written_;
  bool uploading_ = false;
  Bell upload_over_;
  Inbox inbox_;
  McpServers mcp_;
};

}  // namespace pie_client
