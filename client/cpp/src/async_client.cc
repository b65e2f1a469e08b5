#include <algorithm>

#include "blake3.h"
#include "core.h"
#include "pie_client/async.h"

namespace pie_client::async {
namespace {

constexpr auto kInstall = std::chrono::minutes(10);  // the server compiles the component first

std::string TextOf(const Json& input) {
  return input.is_string() ? input.get<std::string>() : input.dump();
}

// These functions convert the text of an answer.

asio::awaitable<bool> IsTrue(asio::awaitable<std::string> answer) {
  co_return co_await std::move(answer) == "true";
}

asio::awaitable<std::string> VersionIn(asio::awaitable<std::string> answer) {
  const Json found = Json::parse(co_await std::move(answer), nullptr, false);
  if (!found.is_object() || !found.contains("version")) {
    throw ServerError("cannot parse the server's answer");
  }
  co_return found["version"].get<std::string>();
}

asio::awaitable<std::vector<ProcessInfo>> ListIn(asio::awaitable<std::string> answer) {
  const Json found = Json::parse(co_await std::move(answer), nullptr, false);
  if (!found.is_array()) throw ServerError("cannot parse the server's answer");
  std::vector<ProcessInfo> list;
  for (const Json& entry : found) {
    list.push_back({entry.value("process_id", ""), entry.value("inferlet", ""),
                    entry.value("username", ""), entry.value("attached", false)});
    if (const auto port = entry.find("port"); port != entry.end() && port->is_number_unsigned()) {
      list.back().port = port->get<uint16_t>();
    }
  }
  co_return list;
}

asio::awaitable<std::chrono::microseconds> TimeOf(asio::awaitable<std::string> answer) {
  const auto began = std::chrono::steady_clock::now();
  co_await std::move(answer);
  co_return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                                  began);
}

}  // namespace

Client::Client(std::string uri, Options options)
    : core_(std::make_shared<Core>(std::move(uri), std::move(options))) {}

Client::~Client() {
  if (core_) core_->Leave();
}

asio::awaitable<void> Client::Connect() {
  return core_->Connect();
}

asio::awaitable<void> Client::Close() {
  return core_->Close();
}

asio::awaitable<void> Client::Reconnect() {
  return core_->Reconnect();
}

asio::awaitable<void> Client::Authenticate(std::string username,
                                           std::optional<ParsedPrivateKey> key) {
  return core_->Authenticate({.username = std::move(username), .key = std::move(key)});
}

asio::awaitable<void> Client::AuthByToken(std::string token) {
  return core_->Authenticate({.token = std::move(token)});
}

// --- programs

asio::awaitable<bool> Client::CheckProgram(std::string_view inferlet,
                                           std::optional<std::string_view> wasm,
                                           std::optional<std::string_view> manifest) {
  const size_t at = std::min(inferlet.find('@'), inferlet.size());
  Json fields = {{"name", inferlet.substr(0, at)},
                 {"version", inferlet.substr(std::min(at + 1, inferlet.size()))}};
  if (wasm) fields["wasm_hash"] = Blake3Hex(*wasm);
  if (manifest) fields["manifest_hash"] = Blake3Hex(*manifest);
  return IsTrue(core_->Ask("check_program", std::move(fields)));
}

asio::awaitable<std::string> Client::ResolveVersion(std::string_view name) {
  return VersionIn(Query("program", name));
}

asio::awaitable<void> Client::InstallProgram(std::string wasm, std::string_view manifest,
                                             bool force_overwrite) {
  Json fields = {{"program_hash", Blake3Hex(wasm)},
                 {"manifest", manifest},
                 {"force_overwrite", force_overwrite}};
  return core_->Upload("add_program", std::move(fields), std::move(wasm), kInstall);
}

// --- processes

asio::awaitable<Process> Client::LaunchProcess(std::string_view inferlet, const Json& input,
                                               bool capture_outputs,
                                               std::optional<uint64_t> token_budget) {
  Json fields = {{"inferlet", inferlet},
                 {"input", TextOf(input)},
                 {"capture_outputs", capture_outputs},
                 {"seen", 0}};
  if (token_budget) fields["token_budget"] = *token_budget;
  return Process::Listen(core_, "launch_process", std::move(fields), 0);
}

asio::awaitable<Process> Client::AttachProcess(std::string_view process_id,
                                               std::optional<uint64_t> seen) {
  Json fields = {{"process_id", process_id}};
  if (seen) fields["seen"] = *seen;
  return Process::Listen(core_, "attach_process", std::move(fields), seen);
}

asio::awaitable<std::vector<ProcessInfo>> Client::ListProcesses() {
  return ListIn(core_->Ask("list_processes"));
}

asio::awaitable<void> Client::SignalProcess(std::string_view process_id, std::string_view message) {
  return core_->Do("signal_process", {{"process_id", process_id}, {"message", message}});
}

asio::awaitable<void> Client::TransferFile(std::string_view process_id, std::string bytes) {
  Json fields = {{"process_id", process_id}, {"file_hash", Blake3Hex(bytes)}};
  return core_->Upload("transfer_file", std::move(fields), std::move(bytes));
}

asio::awaitable<void> Client::TerminateProcess(std::string_view process_id) {
  return core_->Do("terminate_process", {{"process_id", process_id}});
}

asio::awaitable<std::string> Client::LaunchDaemon(std::string_view inferlet, uint16_t port,
                                                  const Json& input) {
  return core_->Ask("launch_daemon",
                    {{"inferlet", inferlet}, {"port", port}, {"input", TextOf(input)}});
}

asio::awaitable<std::string> Client::RestartDaemon(std::string_view process_id) {
  return core_->Ask("restart_daemon", {{"process_id", process_id}});
}

asio::awaitable<void> Client::RegisterMcpServer(std::string_view name, std::string_view transport,
                                                std::optional<std::string> command,
                                                std::vector<std::string> args,
                                                std::optional<std::string> /*url*/) {
  if (transport != "stdio" || !command) {
    throw Error("transport '" + std::string(transport) +
                "': this client runs servers of the transport 'stdio', which need a command");
  }
  args.insert(args.begin(), *std::move(command));
  return core_->RegisterMcp(std::string(name), std::move(args));
}

// --- the rest

asio::awaitable<std::chrono::microseconds> Client::Ping() {
  return TimeOf(core_->Ask("ping"));
}

asio::awaitable<std::string> Client::Query(std::string_view subject, std::string_view record) {
  return core_->Ask("query", {{"subject", subject}, {"record", record}});
}

}  // namespace pie_client::async
