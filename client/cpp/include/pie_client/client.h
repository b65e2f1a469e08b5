// Client: a connection to a Pie server.
//
//   auto client = pie_client::Client::Connect("ws://127.0.0.1:8080", {.username = "ada"});
//   auto process = client.LaunchProcess("text-completion", {{"prompt", "Hello"}});
//   while (auto text = process.NextText()) std::cout << *text << std::flush;
//
// Calls wait for their answer and throw what pie_client/errors.h lists. Any thread may make them,
// several at a time; those who would rather await them take async.h, of which this is a thin layer
// on a thread of its own. A client reads only while there is room for what comes, or while somebody
// waits, so a process that is not listened to waits.
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

class Client {
 public:
  static Client Connect(const std::string& uri, Options options = {});
  ~Client();
  Client(Client&&) noexcept;
  Client& operator=(Client&&) = delete;

  // Ends the connection. Processes go on; whoever waits here gets ConnectionLost.
  void Close();
  // Connects anew, authenticates as before and attaches to every process that has not ended. Their
  // events go on where they broke off; nothing is lost as long as the server keeps it. A process
  // that is no more there gets ServerError from Recv.
  void Reconnect();

  // Says who this is, and proves it if the server wants a proof.
  void Authenticate(const std::string& username, std::optional<ParsedPrivateKey> key = {});
  void AuthByToken(const std::string& token);

  // Whether `name` or `name@version` is installed; with a component or a manifest, whether it is
  // that one.
  bool CheckProgram(std::string_view inferlet, std::optional<std::string_view> wasm = {},
                    std::optional<std::string_view> manifest = {});
  // The latest installed version of a program: `1.2.3`.
  std::string ResolveVersion(std::string_view name);
  // Installs a component: its bytes, and the text of its Pie.toml.
  void InstallProgram(std::string_view wasm, std::string_view manifest,
                      bool force_overwrite = false);

  // Starts `name` (the latest version) or `name@version`. A text goes to it as it is, all else as
  // JSON. Without `capture_outputs` what it prints does not come; what it sends does.
  Process LaunchProcess(std::string_view inferlet,
                        const nlohmann::json& input = nlohmann::json::object(),
                        bool capture_outputs = true, std::optional<uint64_t> token_budget = {});
  // Listens to a process of one's own: first what has waited. With `seen`, the number of its events
  // that somebody has had (Process::seen), exactly those behind them.
  Process AttachProcess(const std::string& process_id, std::optional<uint64_t> seen = {});
  std::vector<ProcessInfo> ListProcesses();
  void SignalProcess(std::string_view process_id, std::string_view message);
  void TransferFile(std::string_view process_id, std::string_view bytes);
  void TerminateProcess(std::string_view process_id);
  // Starts an HTTP inferlet on a port of the server.
  void LaunchDaemon(std::string_view inferlet, uint16_t port,
                    const nlohmann::json& input = nlohmann::json::object());
  // Offers an MCP server to the processes of this client.
  void RegisterMcpServer(std::string_view name, std::string_view transport = "stdio",
                         std::optional<std::string> command = {},
                         std::vector<std::string> args = {}, std::optional<std::string> url = {});

  // How long the server took to answer.
  std::chrono::microseconds Ping();
  // `model_status`, or `program` and its name: JSON.
  std::string Query(std::string_view subject, std::string_view record = "");

 private:
  struct Inside;
  explicit Client(std::unique_ptr<Inside> inside);

  std::unique_ptr<Inside> in_;
};

}  // namespace pie_client
