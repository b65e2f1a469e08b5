#include "pie_client/client.h"

#include <algorithm>
#include <thread>

#include "base64.h"
#include "blake3.h"
#include "core.h"

namespace pie_client {
namespace {

constexpr auto kInstall = std::chrono::minutes(10);  // the server compiles what it is given
constexpr int kAttempts = 5;

std::string TextOf(const Json& input) {
  return input.is_string() ? input.get<std::string>() : input.dump();
}

template <class F>
void Authenticating(F steps) {
  try {
    steps();
  } catch (const AuthError&) {
    throw;
  } catch (const ServerError& error) {
    throw AuthError(error.what());
  }
}

void Identify(Core& core, const std::string& username, const std::optional<ParsedPrivateKey>& key) {
  Authenticating([&] {
    const auto challenge = FromBase64(core.Ask("auth_identify", {{"username", username}}));
    if (!challenge) return;  // nothing to sign, said in words
    if (!key) throw AuthError("the server wants a proof: give the private key of " + username);
    core.Ask("auth_prove", {{"signature", ToBase64(key->Sign(*challenge))}});
  });
}

}  // namespace

Client Client::Connect(const std::string& uri, Options options) {
  Client client(std::make_shared<Core>(uri, options.ca_file, options.timeout));
  client.core_->Open();
  if (options.token) {
    client.AuthByToken(*options.token);
  } else if (options.username) {
    client.Authenticate(*options.username, options.key);
  }
  return client;
}

Client::~Client() {
  if (core_) core_->Close();
}

void Client::Close() {
  core_->Close();
}

void Client::Reconnect() {
  core_->Close();
  for (int attempt = 1;; ++attempt) {
    try {
      core_->Open();
      break;
    } catch (const ConnectionLost&) {
      if (attempt == kAttempts) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(50 << attempt));
    }
  }
  if (core_->login) core_->login();
  for (const auto& mailbox : core_->mailboxes()) {
    Json fields = {{"process_id", mailbox->id}};
    if (const auto seen = core_->Locked([&] { return mailbox->seen; })) fields["seen"] = *seen;
    try {
      core_->Ask("attach_process", fields, [&](const std::string&) { mailbox->fault = nullptr; });
    } catch (const ServerError&) {
      core_->Lose(*mailbox, std::current_exception());
      core_->Forget(mailbox->id);
    }
  }
}

void Client::Authenticate(const std::string& username, std::optional<ParsedPrivateKey> key) {
  Identify(*core_, username, key);
  core_->login = [core = core_.get(), username, key = std::move(key)] {
    Identify(*core, username, key);
  };
}

void Client::AuthByToken(const std::string& token) {
  auto login = [core = core_.get(), token] {
    Authenticating([&] { core->Ask("auth_by_token", {{"token", token}}); });
  };
  login();
  core_->login = login;
}

// --- programs

bool Client::CheckProgram(std::string_view inferlet, std::optional<std::string_view> wasm,
                          std::optional<std::string_view> manifest) {
  const size_t at = std::min(inferlet.find('@'), inferlet.size());
  Json fields = {{"name", inferlet.substr(0, at)},
                 {"version", inferlet.substr(std::min(at + 1, inferlet.size()))}};
  if (wasm) fields["wasm_hash"] = Blake3Hex(*wasm);
  if (manifest) fields["manifest_hash"] = Blake3Hex(*manifest);
  return core_->Ask("check_program", std::move(fields)) == "true";
}

std::string Client::ResolveVersion(std::string_view name) {
  const Json found = Json::parse(Query("program", name), nullptr, false);
  if (!found.is_object() || !found.contains("version")) {
    throw ServerError("the server's answer cannot be read");
  }
  return found["version"].get<std::string>();
}

void Client::InstallProgram(std::string_view wasm, std::string_view manifest,
                            bool force_overwrite) {
  core_->Upload("add_program",
                {{"program_hash", Blake3Hex(wasm)},
                 {"manifest", manifest},
                 {"force_overwrite", force_overwrite}},
                wasm, kInstall);
}

// --- processes

Process Client::LaunchProcess(std::string_view inferlet, const Json& input, bool capture_outputs,
                              std::optional<uint64_t> token_budget) {
  Json fields = {{"inferlet", inferlet},
                 {"input", TextOf(input)},
                 {"capture_outputs", capture_outputs},
                 {"seen", 0}};
  if (token_budget) fields["token_budget"] = *token_budget;
  std::shared_ptr<Mailbox> mailbox;
  core_->Ask("launch_process", std::move(fields),
             [&](const std::string& id) { mailbox = core_->Adopt(id, 0); });
  return {core_, std::move(mailbox)};
}

Process Client::AttachProcess(const std::string& process_id, std::optional<uint64_t> seen) {
  Json fields = {{"process_id", process_id}};
  if (seen) fields["seen"] = *seen;
  std::shared_ptr<Mailbox> mailbox;
  core_->Ask("attach_process", std::move(fields),
             [&](const std::string&) { mailbox = core_->Adopt(process_id, seen); });
  return {core_, std::move(mailbox)};
}

std::vector<ProcessInfo> Client::ListProcesses() {
  std::vector<ProcessInfo> list;
  const Json found = Json::parse(core_->Ask("list_processes"), nullptr, false);
  if (!found.is_array()) throw ServerError("the server's answer cannot be read");
  for (const Json& entry : found) {
    list.push_back({entry.value("process_id", ""), entry.value("inferlet", ""),
                    entry.value("username", ""), entry.value("attached", false)});
  }
  return list;
}

void Client::SignalProcess(std::string_view process_id, std::string_view message) {
  core_->Ask("signal_process", {{"process_id", process_id}, {"message", message}});
}

void Client::TransferFile(std::string_view process_id, std::string_view bytes) {
  core_->Upload("transfer_file", {{"process_id", process_id}, {"file_hash", Blake3Hex(bytes)}},
                bytes, core_->timeout());
}

void Client::TerminateProcess(std::string_view process_id) {
  core_->Ask("terminate_process", {{"process_id", process_id}});
}

void Client::LaunchDaemon(std::string_view inferlet, uint16_t port, const Json& input) {
  core_->Ask("launch_daemon", {{"inferlet", inferlet}, {"port", port}, {"input", TextOf(input)}});
}

void Client::RegisterMcpServer(std::string_view name, std::string_view transport,
                               std::optional<std::string> command, std::vector<std::string> args,
                               std::optional<std::string> url) {
  Json fields = {{"name", name}, {"transport", transport}, {"args", args}};
  if (command) fields["command"] = *command;
  if (url) fields["url"] = *url;
  core_->Ask("register_mcp_server", std::move(fields));
}

// --- the rest

std::chrono::microseconds Client::Ping() {
  const auto began = std::chrono::steady_clock::now();
  core_->Ask("ping");
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() -
                                                               began);
}

std::string Client::Query(std::string_view subject, std::string_view record) {
  return core_->Ask("query", {{"subject", subject}, {"record", record}});
}

}  // namespace pie_client
