// The conformance driver of the C++ client. See client/conformance/README.md. It is compiled twice:
// for the blocking API, with a thread for each call, and with PIE_CLIENT_ASYNC for the asynchronous
// API, with all calls in one thread.
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#ifdef PIE_CLIENT_ASYNC
#include "pie_client/async.h"
// The header above must come before those of Asio.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#define AWAIT co_await
#define RETURN co_return
#else
#include "pie_client/client.h"
#define AWAIT
#define RETURN return
#endif

namespace {

using nlohmann::json;
using namespace pie_client;

#ifdef PIE_CLIENT_ASYNC
namespace asio = boost::asio;
using async::Client;
using async::Process;
template <class T>
using Task = asio::awaitable<T>;
#else
template <class T>
using Task = T;
#endif

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

// Returns the text of a manifest, which is given as its path or as its text.
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

Task<void> Connect(World& world, const json& command) {
  Options options{.key = Key(command)};
  if (command.contains("username")) options.username = command["username"];
  if (command.contains("token")) options.token = command["token"];
  options.timeout =
      std::chrono::milliseconds(static_cast<int>(command.value("timeout", 60.0) * 1000));
  options.ca_file = command.value("ca", "");
#ifdef PIE_CLIENT_ASYNC
  auto client = std::make_shared<Client>(command["uri"].get<std::string>(), options);
  co_await client->Connect();
#else
  auto client = std::make_shared<Client>(Client::Connect(command["uri"], options));
#endif
  std::lock_guard lock(world.mutex);
  world.clients[command["client"]] = std::move(client);
}

json Keep(World& world, const json& command, Process process) {
  const std::string id = process.id();
  std::lock_guard lock(world.mutex);
  world.processes[command["process"]] = std::make_shared<Process>(std::move(process));
  return id;
}

Task<json> OfClient(World& world, Client& client, const json& command) {
  const std::string op = command["op"];
  auto text = [&](const char* key) { return command.value(key, ""); };
  if (op == "authenticate") AWAIT client.Authenticate(text("username"), Key(command));
  if (op == "auth_by_token") AWAIT client.AuthByToken(text("token"));
  if (op == "reconnect") AWAIT client.Reconnect();
  if (op == "close") AWAIT client.Close();
  if (op == "ping") AWAIT client.Ping();
  if (op == "query") RETURN AWAIT client.Query(text("subject"), text("record"));
  if (op == "resolve_version") RETURN AWAIT client.ResolveVersion(text("name"));
  if (op == "check") {
    const std::string wasm = command.contains("wasm") ? Read(text("wasm")) : "";
    const std::string manifest = Manifest(text("manifest"));
    std::optional<std::string_view> wasm_given, manifest_given;
    if (command.contains("wasm")) wasm_given = wasm;
    if (command.contains("manifest")) manifest_given = manifest;
    RETURN AWAIT client.CheckProgram(text("program"), wasm_given, manifest_given);
  }
  if (op == "install") {
    AWAIT client.InstallProgram(Read(text("wasm")), Manifest(text("manifest")),
                                command.value("force", false));
  }
  if (op == "launch") {
    std::optional<uint64_t> budget;
    if (command.contains("budget")) budget = command["budget"];
    Process process = AWAIT client.LaunchProcess(text("program"), command["input"],
                                                 command.value("capture", true), budget);
    RETURN Keep(world, command, std::move(process));
  }
  if (op == "attach") {
    std::optional<uint64_t> seen;
    if (command.contains("seen")) seen = command["seen"];
    Process process = AWAIT client.AttachProcess(text("pid"), seen);
    Keep(world, command, std::move(process));
  }
  if (op == "list") {
    json list = json::array();
    const std::vector<ProcessInfo> found = AWAIT client.ListProcesses();
    for (const ProcessInfo& info : found) list.push_back(info.process_id);
    RETURN list;
  }
  if (op == "signal_pid") AWAIT client.SignalProcess(text("pid"), text("message"));
  if (op == "terminate_pid") AWAIT client.TerminateProcess(text("pid"));
  if (op == "launch_daemon") {
    RETURN AWAIT client.LaunchDaemon(text("program"), command["port"]);
  }
  if (op == "restart_daemon") RETURN AWAIT client.RestartDaemon(text("pid"));
  if (op == "register_mcp") {
    AWAIT client.RegisterMcpServer(text("name"), "stdio", text("command"),
                                   command.value("args", std::vector<std::string>()));
  }
  RETURN nullptr;
}

Task<json> OfProcess(World& world, Process& process, const json& command, json& heard) {
  const std::string op = command["op"];
  if (op == "signal") AWAIT process.Signal(command["message"].get_ref<const std::string&>());
  if (op == "transfer") AWAIT process.TransferFile(Read(command["path"]));
  if (op == "terminate") AWAIT process.Terminate();
  if (op == "discard") process.Discard();
  if (op == "seen") RETURN process.seen() ? json(*process.seen()) : json();
  if (op == "text") RETURN AWAIT process.Text();
  if (op == "result") RETURN AWAIT process.Result();
  if (op == "recv") {
    std::optional<std::chrono::milliseconds> limit;
    if (command.contains("timeout")) {
      limit = std::chrono::milliseconds(static_cast<int>(command["timeout"].get<double>() * 1000));
    }
    const Event event = AWAIT process.Recv(limit);
    RETURN Show(world, event);
  }
  if (op == "drain") {
    heard = json::array();
    while (auto event = AWAIT process.Next()) heard.push_back(Show(world, *event));
    RETURN heard;
  }
  RETURN nullptr;
}

Task<json> Do(World& world, const json& command, json& heard) {
  if (command["op"] == "connect") {
    AWAIT Connect(world, command);
    RETURN nullptr;
  }
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
  if (client) RETURN AWAIT OfClient(world, *client, command);
  if (process) RETURN AWAIT OfProcess(world, *process, command, heard);
  RETURN nullptr;  // the connection was never opened
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

Task<void> Handle(World& world, json command) {
  json answer = {{"id", command["id"]}};
  json heard;
  try {
    answer["ok"] = AWAIT Do(world, command, heard);
  } catch (const Error& error) {
    answer["error"] = {{"kind", KindOf(error)}, {"message", error.what()}, {"events", heard}};
  } catch (const std::exception& error) {
    answer["error"] = {{"kind", "bug"}, {"message", error.what()}};
  }
  const std::string line = answer.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  std::lock_guard lock(world.mutex);
  std::cout << line << std::flush;
}

#ifdef PIE_CLIENT_ASYNC
asio::awaitable<void> TakeCommands(World& world) {
  const auto executor = co_await asio::this_coro::executor;
  asio::posix::stream_descriptor input(executor, STDIN_FILENO);
  std::string lines;
  try {
    while (true) {
      const size_t size = co_await asio::async_read_until(input, asio::dynamic_buffer(lines), '\n',
                                                          asio::use_awaitable);
      asio::co_spawn(executor, Handle(world, json::parse(lines.substr(0, size))), asio::detached);
      lines.erase(0, size);
    }
  } catch (const boost::system::system_error&) {  // the end of the input
    world.processes.clear();
    world.clients.clear();
  }
}

void Run(World& world) {
  asio::io_context io;
  asio::co_spawn(io, TakeCommands(world), asio::detached);
  io.run();
}
#else
void Run(World& world) {
  std::vector<std::jthread> threads;
  std::string line;
  while (std::getline(std::cin, line)) {
    threads.emplace_back([&world, command = json::parse(line)] { Handle(world, command); });
    if (threads.size() > 64) threads.clear();  // waits for all of them
  }
}
#endif

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  World world{.folder = argv[1]};
  Run(world);
}
