#include "pie_client/client.h"

#include "loop.h"
#include "pie_client/async.h"

namespace pie_client {

struct Client::Inside {
  std::shared_ptr<Loop> loop;
  async::Client client;
};

Client Client::Connect(const std::string& uri, Options options) {
  auto inside =
      std::make_unique<Inside>(std::make_shared<Loop>(), async::Client(uri, std::move(options)));
  inside->loop->Run(inside->client.Connect());
  return Client(std::move(inside));
}

Client::Client(std::unique_ptr<Inside> inside) : in_(std::move(inside)) {}
Client::Client(Client&&) noexcept = default;

Client::~Client() {
  if (in_) in_->loop->Run(in_->client.Close());
}

void Client::Close() {
  in_->loop->Run(in_->client.Close());
}

void Client::Reconnect() {
  in_->loop->Run(in_->client.Reconnect());
}

void Client::Authenticate(const std::string& username, std::optional<ParsedPrivateKey> key) {
  in_->loop->Run(in_->client.Authenticate(username, std::move(key)));
}

void Client::AuthByToken(const std::string& token) {
  in_->loop->Run(in_->client.AuthByToken(token));
}

bool Client::CheckProgram(std::string_view inferlet, std::optional<std::string_view> wasm,
                          std::optional<std::string_view> manifest) {
  return in_->loop->Run(in_->client.CheckProgram(inferlet, wasm, manifest));
}

std::string Client::ResolveVersion(std::string_view name) {
  return in_->loop->Run(in_->client.ResolveVersion(name));
}

void Client::InstallProgram(std::string_view wasm, std::string_view manifest,
                            bool force_overwrite) {
  in_->loop->Run(in_->client.InstallProgram(std::string(wasm), manifest, force_overwrite));
}

Process Client::LaunchProcess(std::string_view inferlet, const nlohmann::json& input,
                              bool capture_outputs, std::optional<uint64_t> token_budget) {
  return {in_->loop, in_->loop->Run(in_->client.LaunchProcess(inferlet, input, capture_outputs,
                                                              token_budget))};
}

Process Client::AttachProcess(const std::string& process_id, std::optional<uint64_t> seen) {
  return {in_->loop, in_->loop->Run(in_->client.AttachProcess(process_id, seen))};
}

std::vector<ProcessInfo> Client::ListProcesses() {
  return in_->loop->Run(in_->client.ListProcesses());
}

void Client::SignalProcess(std::string_view process_id, std::string_view message) {
  in_->loop->Run(in_->client.SignalProcess(process_id, message));
}

void Client::TransferFile(std::string_view process_id, std::string_view bytes) {
  in_->loop->Run(in_->client.TransferFile(process_id, std::string(bytes)));
}

void Client::TerminateProcess(std::string_view process_id) {
  in_->loop->Run(in_->client.TerminateProcess(process_id));
}

std::string Client::LaunchDaemon(std::string_view inferlet, uint16_t port,
                                 const nlohmann::json& input) {
  return in_->loop->Run(in_->client.LaunchDaemon(inferlet, port, input));
}

std::string Client::RestartDaemon(std::string_view process_id) {
  return in_->loop->Run(in_->client.RestartDaemon(process_id));
}

void Client::RegisterMcpServer(std::string_view name, std::string_view transport,
                               std::optional<std::string> command, std::vector<std::string> args,
                               std::optional<std::string> url) {
  in_->loop->Run(in_->client.RegisterMcpServer(name, transport, std::move(command), std::move(args),
                                               std::move(url)));
}

std::chrono::microseconds Client::Ping() {
  return in_->loop->Run(in_->client.Ping());
}

std::string Client::Query(std::string_view subject, std::string_view record) {
  return in_->loop->Run(in_->client.Query(subject, record));
}

}  // namespace pie_client
