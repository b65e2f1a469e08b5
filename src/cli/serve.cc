#include "cli/serve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <thread>

#include "cli/config.h"
#include "cli/interrupts.h"
#include "cli/monitor.h"
#include "cli/server_config.h"
#include "cli/shipped.h"
#include "cli/start_engine.h"
#include "cli/terminal.h"
#include "server/certificate.h"
#include "server/server.h"

namespace pie::cli {
namespace {

// The part of a model's KV memory that is prefaulted: all of it, unless more pages are configured.
// A step should not wait for the system to clear memory, and the prefix cache soon uses all pages.
constexpr uint64_t kPrefaultBytes = 1ULL << 30;

// Stores the internal token in a file that programs of the same user can read.
class TokenFile {
 public:
  TokenFile(uint16_t port, const std::string& token)
      : path_(fmt::format("{}/server-{}.token", HomeDir(), port)) {
    unlink(path_.c_str());  // an existing file may have other permissions
    const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return;
    written_ = write(fd, token.data(), token.size()) == static_cast<ssize_t>(token.size());
    close(fd);
  }
  ~TokenFile() { unlink(path_.c_str()); }
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const { return path_; }
  bool written() const { return written_; }

 private:
  std::string path_;
  bool written_ = false;
};

void PrintBanner(const server::Server& server, const ServerConfig& config, host::Engine& engine,
                 size_t programs) {
  const std::string scheme = config.server.tls_cert.empty() ? "ws" : "wss";
  const bool colon = config.server.host.find(':') != std::string::npos;  // IPv6
  const std::string host = colon ? "[" + config.server.host + "]" : config.server.host;
  const std::string uri = fmt::format("{}://{}:{}", scheme, host, server.port());
  fmt::print("pie {} serves on {}\n", PIE_VERSION, uri);
  for (host::LoadedModel& loaded : engine.models()) {
    const BackendInfo& info = loaded.scheduler->info();
    fmt::print("  model     {} on {}: {} pages of {} tokens\n", loaded.model.name, info.name,
               info.total_pages, info.page_tokens);
  }
  fmt::print("  programs  {} installed in {}/programs\n", programs, HomeDir());
  const std::string web = scheme == "ws" ? "http" : "https";
  if (!config.server.page.empty()) {
    fmt::print("  page      {}://{}:{}/\n", web, host, server.port());
  }
  for (const auto& [prefix, program] : config.server.routes) {
    fmt::print("  route     {}://{}:{}{}: {}\n", web, host, server.port(), prefix, program);
  }
  fmt::print("  auth      {}\n",
             config.auth ? "on: keys in " + HomeDir() + "/authorized_users.toml (`pie auth add`)"
                         : "off: anyone who reaches this address may connect");
  fmt::print("  connect   async with PieClient(\"{}\") as client: …   (Python)\n", uri);
  fmt::print("  watch     {}://{}:{}/metrics, /healthz; pie serve --monitor\n", web, host,
             server.port());
  std::fflush(stdout);
}

Result<server::Log::Level> LevelOf(const ServerConfig& config, bool debug) {
  using Level = server::Log::Level;
  if (debug || config.log_level == "debug") return Level::kDebug;
  if (config.log_level == "info") return Level::kInfo;
  if (config.log_level == "warning") return Level::kWarning;
  if (config.log_level == "error") return Level::kError;
  return Fail(Code::kInvalid, "telemetry.log_level must be debug, info, warning or error");
}

// The engine's destructor waits for its threads, and one of them may wait for a slow disk. No
// client was told that this work is done, so after a while the process ends without waiting.
class ExitInTime {
 public:
  ExitInTime()
      : thread_([this] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, kPatience, [this] { return done_; })) return;
          std::fflush(nullptr);
          std::_Exit(0);
        }) {}
  ~ExitInTime() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }
  ExitInTime(const ExitInTime&) = delete;
  ExitInTime& operator=(const ExitInTime&) = delete;

 private:
  static constexpr auto kPatience = std::chrono::seconds(3);
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;  // last: it uses the rest
};

Result<int> ServeChecked(const ServeOptions& options) {
  Config engine_config = PIE_TRY(ReadConfig(options.config));
  ServerConfig config = PIE_TRY(ReadServerConfig(options.config));
  if (!options.dummy.empty()) UseDummy(engine_config, options.dummy);
  if (options.no_snapshot) engine_config.snapshot_root.clear();
  engine_config.prefault_bytes = kPrefaultBytes;
  if (!options.host.empty()) config.server.host = options.host;
  if (options.port) config.server.port = *options.port;
  if (options.no_auth) config.auth = false;
  server::Log log({.least = PIE_TRY(LevelOf(config, options.debug)), .json = config.json_logs});

  Interrupts interrupts;
  std::error_code ignored;
  std::filesystem::create_directories(HomeDir(), ignored);
  auto registry = PIE_TRY(server::Registry::Open(HomeDir() + "/programs"));
  for (const auto& [prefix, program] : config.server.routes) {
    const auto there = InstallShipped(*registry, program);
    if (!there) return std::unexpected(there.error());
    if (!*there) {
      log.Write(server::Log::Level::kWarning, "a route has no inferlet yet",
                {{"route", prefix}, {"inferlet", program}});
    }
  }
  const size_t programs = PIE_TRY(registry->List()).size();
  if (config.page) config.server.page = PIE_TRY(server::Page::Read(WebDir()));
  server::Auth auth(config.auth, HomeDir() + "/authorized_users.toml",
                    HomeDir() + "/api_tokens.toml");
  if (config.auth) engine_config.several_users = PIE_TRY(auth.CountUsers()) > 1;
  if (!config.server.tls_cert.empty()) {
    auth.BindTo(PIE_TRY(server::CertificateHash(config.server.tls_cert)));
  }
  MemoryPlan memory;
  auto engine = PIE_TRY(StartEngine(engine_config, /*quiet=*/false, &memory));
  memory.Cap(config.server.limits);
  auto server = PIE_TRY(server::Server::Start(config.server, *engine, *registry, auth, log));
  std::optional<TokenFile> token(std::in_place, server->port(), auth.token());
  if (!token->written()) {
    log.Write(server::Log::Level::kWarning, "cannot write the token file",
              {{"path", token->path()}});
  }
  // Watched before the banner is printed, because a script may stop the server as soon as it reads
  // it.
  interrupts.Watch([&server] {
    fmt::print(stderr, "{}\n",
               Dim("draining: waiting for processes to end; press Ctrl-C again to exit at once"));
    server->Drain();
  });
  log.Info("serving", {{"host", config.server.host}, {"port", server->port()}});
  PrintBanner(*server, config, *engine, programs);
  {
    std::optional<Monitor> monitor;
    if (options.monitor) monitor.emplace(server->service());
    server->Wait();
  }
  interrupts.Watch(nullptr);
  const ExitInTime exit_in_time;
  log.Info("stopped", {{"launches", server->service().launches.load()}});
  token.reset();
  server.reset();
  engine.reset();
  return 0;
}

}  // namespace

int Serve(const ServeOptions& options) {
  auto code = ServeChecked(options);
  return code ? *code : ReportError(code.error().text);
}

}  // namespace pie::cli
