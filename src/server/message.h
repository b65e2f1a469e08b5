// The messages of clients as typed values. Texts are views into the frame and live as long as it
// does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

namespace pie::server {

struct AuthIdentify {
  uint32_t corr_id;
  std::string_view username;
};
struct AuthProve {
  uint32_t corr_id;
  std::string_view signature;  // base64
};
struct AuthByToken {
  uint32_t corr_id;
  std::string_view token;
};
struct CheckProgram {
  uint32_t corr_id;
  std::string_view name, version;
  std::optional<std::string_view> wasm_hash, manifest_hash;
};
struct Query {
  uint32_t corr_id;
  std::string_view subject, record;
};
// A part of a larger object, a component or a file.
struct Chunk {
  std::string_view hash;  // blake3 of the whole, in hex
  uint32_t index, total;
  std::string_view data;
};
struct AddProgram {
  uint32_t corr_id;
  std::string_view manifest;
  bool force_overwrite;
  Chunk chunk;
};
struct LaunchProcess {
  uint32_t corr_id;
  std::string_view inferlet, input;
  bool capture_outputs;
  std::optional<uint64_t> token_budget;
  std::optional<uint64_t> seen;  // our extension: events are numbered and kept after they were sent
};
struct LaunchDaemon {
  uint32_t corr_id;
  uint32_t port;
  std::string_view inferlet, input;
};
struct AttachProcess {
  uint32_t corr_id;
  std::string_view process_id;
  // our extension: the number of events that this client has received
  std::optional<uint64_t> seen;
};
struct TerminateProcess {
  uint32_t corr_id;
  std::string_view process_id;
};
struct SignalProcess {
  std::optional<uint32_t> corr_id;  // our extension: asks for a response
  std::string_view process_id, message;
};
struct TransferFile {
  std::optional<uint32_t> corr_id;  // our extension: asks for a response
  std::string_view process_id;
  Chunk chunk;
};
struct ListProcesses {
  uint32_t corr_id;
};
struct Ping {
  uint32_t corr_id;
};
struct RegisterMcpServer {
  uint32_t corr_id;
  std::string_view name, transport;
  std::optional<std::string_view> command, url;
  std::vector<std::string_view> args;
};
struct McpResponse {
  uint32_t corr_id;
  bool ok;
  std::string_view result;
};
struct RestartDaemon {  // our extension
  uint32_t corr_id;
  std::string_view process_id;
};

using ClientMessage =
    std::variant<AuthIdentify, AuthProve, AuthByToken, CheckProgram, Query, AddProgram,
                 LaunchProcess, LaunchDaemon, AttachProcess, TerminateProcess, SignalProcess,
                 TransferFile, ListProcesses, Ping, RegisterMcpServer, McpResponse, RestartDaemon>;

// The tags, in the order of the variant. A message that is not `before_auth` is refused until the
// client is authenticated.
struct MessageType {
  std::string_view tag;
  bool before_auth = false;
};
inline constexpr std::array kMessageTypes = {
    MessageType{"auth_identify", true},
    MessageType{"auth_prove", true},
    MessageType{"auth_by_token", true},
    MessageType{"check_program"},
    MessageType{"query"},
    MessageType{"add_program"},
    MessageType{"launch_process"},
    MessageType{"launch_daemon"},
    MessageType{"attach_process"},
    MessageType{"terminate_process"},
    MessageType{"signal_process"},
    MessageType{"transfer_file"},
    MessageType{"list_processes"},
    MessageType{"ping"},
    MessageType{"register_mcp_server"},
    MessageType{"mcp_response"},
    MessageType{"restart_daemon"},
};
static_assert(kMessageTypes.size() == std::variant_size_v<ClientMessage>);

}  // namespace pie::server
