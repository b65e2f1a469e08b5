// The C++ client's driver: see client/conformance/README.md.
#include <atomic>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "pie_client/client.h"

namespace {

using nlohmann::json;
using namespace pie_client;

struct World {
  std::string folder;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Client>> clients;
  std::map<std::string, std::shared_ptr<Process>> processes;
  int received = 0;
};

std::string Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A manifest is given as its path, or as its text.
std::string Manifest(const std::string& text) {
  return text.find('[') != std::string::npos ? text : Read(text);
}

json Show(World& world, const Event& event) {
  constexpr const char* kNames[] = {"stdout", "stderr", "message", "file", "return", "error"};
  const char* name = kNames[static_cast<size_t>(event.kind)];
  if (event.kind != Event::Kind::kFile) return {name, event.value};
  std::lock_guard lock(world.mutex);
  const std::string path = world.folder + "/received-" + std::to_string(++world.received);
  std::ofstream(path, std::ios::binary) << event.value;
  return {name, path};
}

std::optional<ParsedPrivateKey> Key(const json& command) {
  if (!command.contains("key")) return std::nullopt;
  return ParsedPrivateKey::Parse(command["key"].get<std::string>());
}

void Connect(World& world, const json& command) {
  Options options{.key = Key(command)};
  if (command.contains("username")) options.username = command["username"];
  if (command.contains("token")) options.token = command["token"];
  options.timeout =
      std::chrono::milliseconds(static_cast<int>(command.value("timeout", 60.0) * 1000));
  options.ca_file = command.value("ca", "");
  auto client = std::make_shared<Client>(Client::Connect(command["uri"], options));
  std::lock_guard lock(world.mutex);
  world.clients[command["client"]] = std::move(client);
}

json Keep(World& world, const json& command, Process process) {
  const std::string id = process.id();
  std::lock_guard lock(world.mutex);
  world.processes[command["process"]] = std::make_shared<Process>(std::move(process));
  return id;
}

json OfClient(World& world, Client& client, const json& command) {
  const std::string op = command["op"];
  auto text = [&](const char* key) { return command.value(key, ""); };
  if (op == "authenticate") client.Authenticate(text("username"), Key(command));
  if (op == "auth_by_token") client.AuthByToken(text("token"));
  if (op == "reconnect") client.Reconnect();
  if (op == "close") client.Close();
  if (op == "ping") client.Ping();
  if (op == "query") return client.Query(text("subject"), text("record"));
  if (op == "resolve_version") return client.ResolveVersion(text("name"));
  if (op == "check") {
    const std::string wasm = command.contains("wasm") ? Read(text("wasm")) : "";
    const std::string manifest = Manifest(text("manifest"));
    std::optional<std::string_view> wasm_given, manifest_given;
    if (command.contains("wasm")) wasm_given = wasm;
    if (command.contains("manifest")) manifest_given = manifest;
    return client.CheckProgram(text("program"), wasm_given, manifest_given);
  }
  if (op == "install") {
    client.InstallProgram(Read(text("wasm")), Manifest(text("manifest")),
                          command.value("force", false));
  }
  if (op == "launch") {
    std::optional<uint64_t> budget;
    if (command.contains("budget")) budget = command["budget"];
    return Keep(world, command,
                client.LaunchProcess(text("program"), command["input"],
                                     command.value("capture", true), budget));
  }
  if (op == "attach") {
    std::optional<uint64_t> seen;
    if (command.contains("seen")) seen = command["seen"];
    Keep(world, command, client.AttachProcess(text("pid"), seen));
  }
  if (op == "list") {
    json list = json::array();
    for (const ProcessInfo& info : client.ListProcesses()) list.push_back(info.process_id);
    return list;
  }
  if (op == "signal_pid") client.SignalProcess(text("pid"), text("message"));
  if (op == "terminate_pid") client.TerminateProcess(text("pid"));
  if (op == "launch_daemon") client.LaunchDaemon(text("program"), command["port"]);
  if (op == "register_mcp") client.RegisterMcpServer(text("name"), "stdio", text("command"));
  return nullptr;
}

json OfProcess(World& world, Process& process, const json& command, json& heard) {
  const std::string op = command["op"];
  if (op == "signal") process.Signal(command["message"].get_ref<const std::string&>());
  if (op == "transfer") process.TransferFile(Read(command["path"]));
  if (op == "terminate") process.Terminate();
  if (op == "discard") process.Discard();
  if (op == "seen") return process.seen() ? json(*process.seen()) : json();
  if (op == "text") return process.Text();
  if (op == "result") return process.Result();
  if (op == "recv") {
    std::optional<std::chrono::milliseconds> limit;
    if (command.contains("timeout")) {
      limit = std::chrono::milliseconds(static_cast<int>(command["timeout"].get<double>() * 1000));
    }
    return Show(world, process.Recv(limit));
  }
  if (op == "drain") {
    heard = json::array();
    while (auto event = process.Next()) heard.push_back(Show(world, *event));
    return heard;
  }
  return nullptr;
}

json Do(World& world, const json& command, json& heard) {
  if (command["op"] == "connect") return Connect(world, command), nullptr;
  std::shared_ptr<Client> client;
  std::shared_ptr<Process> process;
  {
    std::lock_guard lock(world.mutex);
    if (command.contains("client")) {
      client = world.clients[command["client"]];
    } else {
      process = world.processes[command["process"]];
    }
  }
  if (client) return OfClient(world, *client, command);
  if (process) return OfProcess(world, *process, command, heard);
  return nullptr;  // closing what never opened
}

const char* KindOf(const Error& error) {
  if (dynamic_cast<const AuthError*>(&error)) return "auth";
  if (dynamic_cast<const ServerError*>(&error)) return "refused";
  if (dynamic_cast<const ConnectionLost*>(&error)) return "connection";
  if (dynamic_cast<const RequestTimeout*>(&error)) return "timeout";
  if (dynamic_cast<const ProcessError*>(&error)) return "process";
  if (dynamic_cast<const ProcessEnded*>(&error)) return "ended";
  if (dynamic_cast<const IntegrityError*>(&error)) return "integrity";
  if (dynamic_cast<const TooLarge*>(&error)) return "too_large";
  if (dynamic_cast<const KeyError*>(&error)) return "key";
  return "bug";
}

void Handle(World& world, const json& command) {
  json answer = {{"id", command["id"]}};
  json heard;
  try {
    answer["ok"] = Do(world, command, heard);
  } catch (const Error& error) {
    answer["error"] = {{"kind", KindOf(error)}, {"message", error.what()}, {"events", heard}};
  } catch (const std::exception& error) {
    answer["error"] = {{"kind", "bug"}, {"message", error.what()}};
  }
  const std::string line = answer.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  std::lock_guard lock(world.mutex);
  std::cout << line << std::flush;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  World world{.folder = argv[1]};
  std::vector<std::jthread> threads;
  std::string line;
  while (std::getline(std::cin, line)) {
    threads.emplace_back([&world, command = json::parse(line)] { Handle(world, command); });
    if (threads.size() > 64) threads.clear();  // waits for them: nothing waits across so many
  }
}
