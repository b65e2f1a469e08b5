// The asynchronous client, for programs that wait for many things at once. It has the calls of
// client.h and process.h under the same names; each returns an asio::awaitable.
//
//   asio::awaitable<void> Ask(std::string uri) {
//     pie_client::async::Client client(uri, {.username = "ada"});
//     co_await client.Connect();
//     auto process = co_await client.LaunchProcess("text-completion", R"({"prompt": "Hello"})");
//     while (auto text = co_await process.NextText()) std::cout << *text << std::flush;
//   }
//
// The client has no threads of its own. It runs on the executor of the coroutine that connects it,
// and that context must outlive it. Any number of coroutines may wait at a time, on any executors,
// and each resumes on its own executor. A call starts when it is awaited. It copies its arguments
// before that, so the caller need not keep them. Errors are those of pie_client/errors.h.
//
// g++ 12 miscompiles braced arguments within a co_await expression: name such an argument first.
#pragma once

#include <utility>  // missing in Asio's awaitable.hpp
// clang-format off
#include <boost/asio/awaitable.hpp>
// clang-format on
#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pie_client/errors.h"
#include "pie_client/event.h"
#include "pie_client/options.h"

namespace pie_client {

class Core;
struct Mailbox;

namespace async {

namespace asio = boost::asio;

// A process on the server: see pie_client/process.h. It may be moved while calls are in flight.
class Process {
 public:
  ~Process();
  Process(Process&&) = default;
  Process& operator=(Process&&) noexcept;

  const std::string& id() const;
  asio::awaitable<Event> Recv(std::optional<std::chrono::milliseconds> limit = {});
  asio::awaitable<std::optional<Event>> Next();
  asio::awaitable<std::optional<std::string>> NextText();
  asio::awaitable<std::string> Text();
  asio::awaitable<std::string> Result();
  asio::awaitable<void> Signal(std::string_view message);
  asio::awaitable<void> TransferFile(std::string bytes);
  asio::awaitable<void> Terminate();

  // These calls do not wait. Any thread may make them.
  std::optional<std::string> return_value() const;
  bool ended() const;
  std::optional<uint64_t> seen() const;
  void Discard();

 private:
  friend class Client;
  Process(std::shared_ptr<Core> core, std::shared_ptr<Mailbox> mailbox);
  static asio::awaitable<Process> Listen(std::shared_ptr<Core> core, std::string_view type,
                                         nlohmann::json fields, std::optional<uint64_t> seen);

  std::shared_ptr<Core> core_;
  std::shared_ptr<Mailbox> mailbox_;
};

// A connection to a Pie server: see pie_client/client.h.
class Client {
 public:
  explicit Client(std::string uri, Options options = {});
  // Closes the connection in the background, if it is open.
  ~Client();
  Client(Client&&) = default;
  Client& operator=(Client&&) = delete;

  // Must be called once, before any other call. Authenticates if the options name a user.
  asio::awaitable<void> Connect();
  asio::awaitable<void> Close();
  asio::awaitable<void> Reconnect();
  asio::awaitable<void> Authenticate(std::string username,
                                     std::optional<ParsedPrivateKey> key = {});
  asio::awaitable<void> AuthByToken(std::string token);

  asio::awaitable<bool> CheckProgram(std::string_view inferlet,
                                     std::optional<std::string_view> wasm = {},
                                     std::optional<std::string_view> manifest = {});
  asio::awaitable<std::string> ResolveVersion(std::string_view name);
  asio::awaitable<void> InstallProgram(std::string wasm, std::string_view manifest,
                                       bool force_overwrite = false);

  asio::awaitable<Process> LaunchProcess(std::string_view inferlet,
                                         const nlohmann::json& input = nlohmann::json::object(),
                                         bool capture_outputs = true,
                                         std::optional<uint64_t> token_budget = {});
  asio::awaitable<Process> AttachProcess(std::string_view process_id,
                                         std::optional<uint64_t> seen = {});
  asio::awaitable<std::vector<ProcessInfo>> ListProcesses();
  asio::awaitable<void> SignalProcess(std::string_view process_id, std::string_view message);
  asio::awaitable<void> TransferFile(std::string_view process_id, std::string bytes);
  asio::awaitable<void> TerminateProcess(std::string_view process_id);
  asio::awaitable<void> LaunchDaemon(std::string_view inferlet, uint16_t port,
                                     const nlohmann::json& input = nlohmann::json::object());
  asio::awaitable<void> RegisterMcpServer(std::string_view name,
                                          std::string_view transport = "stdio",
                                          std::optional<std::string> command = {},
                                          std::vector<std::string> args = {},
                                          std::optional<std::string> url = {});

  asio::awaitable<std::chrono::microseconds> Ping();
  asio::awaitable<std::string> Query(std::string_view subject, std::string_view record = "");

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace async
}  // namespace pie_client
