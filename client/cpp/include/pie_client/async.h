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

  // The id of the process, which AttachProcess takes.
  const std::string& id() const;
  // The next event. Throws ProcessEnded after the last one and RequestTimeout after `limit`.
  asio::awaitable<Event> Recv(std::optional<std::chrono::milliseconds> limit = {});
  // The next event, or nothing after the last one.
  asio::awaitable<std::optional<Event>> Next();
  // The next text that the process sends or prints, or nothing when it has returned. Throws
  // ProcessError if the process fails.
  asio::awaitable<std::optional<std::string>> NextText();
  // All text that the process sends and prints until it ends.
  asio::awaitable<std::string> Text();
  // The return value. Skips all other events and throws ProcessError if the process fails.
  asio::awaitable<std::string> Result();
  // Sends a message to the process, which gets it from session.receive.
  asio::awaitable<void> Signal(std::string_view message);
  // Sends a file to the process, which gets it from session.receive_file.
  asio::awaitable<void> TransferFile(std::string bytes);
  // Cancels the process. Its last event will be the error `cancelled`.
  asio::awaitable<void> Terminate();

  // These calls do not wait. Any thread may make them.
  std::optional<std::string> return_value() const;
  // Whether the last event has arrived.
  bool ended() const;
  // The number of events that have arrived, for AttachProcess. Nothing if they are not numbered.
  std::optional<uint64_t> seen() const;
  // Drops all events but the last, now and in future.
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
  // A client that is not connected yet. `uri` is such as `ws://127.0.0.1:8080`.
  explicit Client(std::string uri, Options options = {});
  // Closes the connection in the background, if it is open.
  ~Client();
  Client(Client&&) = default;
  Client& operator=(Client&&) = delete;

  // Must be called once, before any other call. Authenticates if the options name a user.
  asio::awaitable<void> Connect();
  // Closes the connection. Processes keep running; pending calls throw ConnectionLost.
  asio::awaitable<void> Close();
  // Connects again, authenticates as before and attaches to every process that has not ended.
  asio::awaitable<void> Reconnect();
  // States the username, and proves it if the server requires a proof. Throws AuthError.
  asio::awaitable<void> Authenticate(std::string username,
                                     std::optional<ParsedPrivateKey> key = {});
  // Authenticates by the token in the server's file `server-<port>.token`.
  asio::awaitable<void> AuthByToken(std::string token);

  // Whether `name` or `name@version` is installed, and equal to the component and manifest, if
  // given.
  asio::awaitable<bool> CheckProgram(std::string_view inferlet,
                                     std::optional<std::string_view> wasm = {},
                                     std::optional<std::string_view> manifest = {});
  // The latest installed version of a program, such as `1.2.3`.
  asio::awaitable<std::string> ResolveVersion(std::string_view name);
  // Installs a component, given its bytes and the text of its Pie.toml.
  asio::awaitable<void> InstallProgram(std::string wasm, std::string_view manifest,
                                       bool force_overwrite = false);

  // Launches `name` (the latest version) or `name@version`.
  asio::awaitable<Process> LaunchProcess(std::string_view inferlet,
                                         const nlohmann::json& input = nlohmann::json::object(),
                                         bool capture_outputs = true,
                                         std::optional<uint64_t> token_budget = {});
  // Attaches to a process of this user. With `seen`, exactly the later events come.
  asio::awaitable<Process> AttachProcess(std::string_view process_id,
                                         std::optional<uint64_t> seen = {});
  // The user's running processes.
  asio::awaitable<std::vector<ProcessInfo>> ListProcesses();
  // Sends a message to a process by its id.
  asio::awaitable<void> SignalProcess(std::string_view process_id, std::string_view message);
  // Sends a file to a process by its id.
  asio::awaitable<void> TransferFile(std::string_view process_id, std::string bytes);
  // Cancels a process by its id. Throws ServerError if the user has no such process.
  asio::awaitable<void> TerminateProcess(std::string_view process_id);
  // Lets an HTTP inferlet answer on a port of the server's machine; 0 chooses a free one. Returns
  // the daemon's id, for TerminateProcess and RestartDaemon; ListProcesses shows its port.
  asio::awaitable<std::string> LaunchDaemon(std::string_view inferlet, uint16_t port,
                                            const nlohmann::json& input = nlohmann::json::object());
  // Ends the requests that a daemon is answering, and looks up its program again: a daemon that was
  // launched without a version gets the newest one. Its id, port and input stay. Returns the
  // program that answers now.
  asio::awaitable<std::string> RestartDaemon(std::string_view process_id);
  // Starts an MCP server beside this client, for the processes of this client. Throws McpError if
  // it does not start.
  asio::awaitable<void> RegisterMcpServer(std::string_view name,
                                          std::string_view transport = "stdio",
                                          std::optional<std::string> command = {},
                                          std::vector<std::string> args = {},
                                          std::optional<std::string> url = {});

  // The round-trip time to the server.
  asio::awaitable<std::chrono::microseconds> Ping();
  // JSON. `subject` is `model_status`, or `program` with its name in `record`.
  asio::awaitable<std::string> Query(std::string_view subject, std::string_view record = "");

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace async
}  // namespace pie_client
