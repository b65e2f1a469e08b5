// Client: a connection to a Pie server.
//
//   auto client = pie_client::Client::Connect("ws://127.0.0.1:8080", {.username = "ada"});
//   auto process = client.LaunchProcess("text-completion", {{"prompt", "Hello"}});
//   while (auto text = process.NextText()) std::cout << *text << std::flush;
//
// Calls block until their answer arrives and throw the errors of pie_client/errors.h. Any thread
// may make them, and several may be in flight. async.h offers the same calls as coroutines; this
// class is a thin layer over it, with a thread of its own. A client reads only while there is room
// for further events or while a call waits, so a process whose events the program does not take
// waits at the server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pie_client/errors.h"
#include "pie_client/options.h"
#include "pie_client/process.h"

namespace pie_client {

// A connection to a server. Its end closes the connection; processes keep running.
class Client {
 public:
  // Connects, and authenticates if the options name a user. Throws ConnectionLost or AuthError.
  static Client Connect(const std::string& uri, Options options = {});
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) = delete;

  // Closes the connection and stops the MCP servers of this client. Processes keep running; pending
  // calls throw ConnectionLost.
  void Close();
  // Connects again, authenticates as before, offers its MCP servers again and attaches to every
  // process that has not ended. Their events continue where they stopped; none is lost as long as
  // the server buffers them. Recv of a process that no longer exists throws ServerError.
  void Reconnect();

  // States the username, and proves it if the server requires a proof.
  void Authenticate(const std::string& username, std::optional<ParsedPrivateKey> key = {});
  // Authenticates by the token in the server's file `server-<port>.token`.
  void AuthByToken(const std::string& token);

  // Returns whether `name` or `name@version` is installed. With a component or a manifest, also
  // checks that the installed one is equal.
  bool CheckProgram(std::string_view inferlet, std::optional<std::string_view> wasm = {},
                    std::optional<std::string_view> manifest = {});
  // Returns the latest installed version of a program, such as `1.2.3`.
  std::string ResolveVersion(std::string_view name);
  // Installs a component, given its bytes and the text of its Pie.toml.
  void InstallProgram(std::string_view wasm, std::string_view manifest,
                      bool force_overwrite = false);

  // Launches `name` (the latest version) or `name@version`. A string input is sent unchanged, any
  // other value as JSON. Without `capture_outputs`, the process's stdout and stderr are not sent;
  // its messages still are.
  Process LaunchProcess(std::string_view inferlet,
                        const nlohmann::json& input = nlohmann::json::object(),
                        bool capture_outputs = true, std::optional<uint64_t> token_budget = {});
  // Attaches to a process of this user. The buffered events come first. With `seen`, the number of
  // events received before (Process::seen), exactly the later events come.
  Process AttachProcess(const std::string& process_id, std::optional<uint64_t> seen = {});
  // Returns the user's running processes.
  std::vector<ProcessInfo> ListProcesses();
  // Sends a message to a process by its id.
  void SignalProcess(std::string_view process_id, std::string_view message);
  // Sends a file to a process by its id.
  void TransferFile(std::string_view process_id, std::string_view bytes);
  // Cancels a process by its id. Throws ServerError if the user has no such process.
  void TerminateProcess(std::string_view process_id);
  // Lets an HTTP inferlet answer on a port of the server's machine; 0 chooses a free one. Returns
  // the daemon's id, for TerminateProcess and RestartDaemon; ListProcesses shows its port.
  std::string LaunchDaemon(std::string_view inferlet, uint16_t port,
                           const nlohmann::json& input = nlohmann::json::object());
  // Ends the requests that a daemon is answering, and looks up its program again: a daemon that was
  // launched without a version gets the newest one. Its id, port and input stay. Returns the
  // program that answers now.
  std::string RestartDaemon(std::string_view process_id);
  // Starts an MCP server beside this client, and offers it to the processes that the client
  // launches or attaches to. `transport` must be `stdio`: the server is a program that speaks MCP
  // over its stdin and stdout. It ends with the connection. Throws McpError if it does not start.
  void RegisterMcpServer(std::string_view name, std::string_view transport = "stdio",
                         std::optional<std::string> command = {},
                         std::vector<std::string> args = {}, std::optional<std::string> url = {});

  // Returns the round-trip time to the server.
  std::chrono::microseconds Ping();
  // Returns JSON. `subject` is `model_status`, or `program` with its name in `record`.
  std::string Query(std::string_view subject, std::string_view record = "");

 private:
  struct Inside;
  explicit Client(std::unique_ptr<Inside> inside);

  std::unique_ptr<Inside> in_;
};

}  // namespace pie_client
