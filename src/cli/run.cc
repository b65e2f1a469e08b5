#include "cli/run.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "cli/config.h"
#include "cli/interrupts.h"
#include "cli/program_file.h"
#include "cli/start_engine.h"
#include "cli/terminal.h"
#include "server/registry.h"

namespace pie::cli {
namespace {

// Writes the inferlet's messages and output to this process's streams as they arrive.
class Printer final : public host::Listener {
 public:
  explicit Printer(const RunOptions& options)
      : stream_(options.stream),
        quiet_(options.quiet),
        watched_(options.stream && IsTerminal(STDOUT_FILENO)),
        harmless_out_(!options.escapes && isatty(STDOUT_FILENO) == 1),
        harmless_err_(!options.escapes && isatty(STDERR_FILENO) == 1) {}

  void OnMessage(std::string_view text) override { Write(text); }
  void OnFile(std::string_view bytes) override {
    if (quiet_) return;
    fmt::print(stderr, "{}\n", Dim(fmt::format("[a file of {} bytes]", bytes.size())));
  }
  void OnOutput(bool is_stderr, std::string_view bytes) override {
    if (is_stderr) {
      const std::string shown = harmless_err_ ? Harmless(bytes) : std::string(bytes);
      std::fwrite(shown.data(), 1, shown.size(), stderr);
    } else {
      Write(bytes);
    }
  }
  void OnExit(const wasm::Exit&) override {}

  // Ends the run if the reader of our output is gone (`pie run … | head`).
  void StopIfUnread(std::weak_ptr<host::Process> process) {
    std::lock_guard lock(mutex_);
    process_ = std::move(process);
    if (auto running = process_.lock(); running && error_ != 0) running->Cancel();
  }
  // Returns the first error of writing to stdout, if any.
  Status written() const {
    std::lock_guard lock(mutex_);
    if (error_ == 0) return {};
    return Fail(Code::kInternal, "cannot write to stdout: {}", std::strerror(error_));
  }

  Status Return(std::string_view text) {
    std::lock_guard lock(mutex_);
    if (!at_line_start_) std::fputc('\n', stdout);
    // On a terminal where all messages were shown, the return value is labelled, and it is not
    // repeated if it equals them.
    if (watched_ && !text.empty() && text == sent_) {
      fmt::print("{}\n", Dim("returned the text above", STDOUT_FILENO));
    } else {
      if (watched_) fmt::print("{} ", Dim("returned", STDOUT_FILENO));
      const std::string shown = harmless_out_ ? Harmless(text) : std::string(text);
      std::fwrite(shown.data(), 1, shown.size(), stdout);
      if (!text.ends_with('\n')) std::fputc('\n', stdout);
    }
    if (error_ == 0 && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
    return Fail(Code::kInternal, "cannot write to stdout: {}",
                std::strerror(error_ != 0 ? error_ : errno));
  }

 private:
  // at most this much of the output is kept for comparison
  static constexpr size_t kRemembered = 1 << 20;

  void Write(std::string_view text) {
    if (!stream_ || text.empty()) return;
    std::lock_guard lock(mutex_);
    if (error_ != 0) return;
    if (watched_ && sent_.size() <= kRemembered) sent_ += text;
    const std::string shown = harmless_out_ ? Harmless(text) : std::string();
    const std::string_view written = harmless_out_ ? std::string_view(shown) : text;
    const bool whole = std::fwrite(written.data(), 1, written.size(), stdout) == written.size();
    if (!whole || std::fflush(stdout) != 0) {
      error_ = errno;
      if (auto process = process_.lock()) process->Cancel();
      return;
    }
    at_line_start_ = text.ends_with('\n');
  }
  const bool stream_, quiet_;
  const bool watched_;                      // messages are shown on a terminal
  const bool harmless_out_, harmless_err_;  // control characters are made visible
  mutable std::mutex mutex_;
  std::string sent_;  // the beginning of the messages and output
  bool at_line_start_ = true;
  int error_ = 0;  // errno of the first write that failed
  std::weak_ptr<host::Process> process_;
};

// Appends lines with a time to a file, or does nothing without one.
class LogFile {
 public:
  static Result<LogFile> Open(const std::string& path) {
    LogFile log;
    if (path.empty()) return log;
    log.file_.open(path, std::ios::app);
    if (!log.file_) return Fail(Code::kInvalid, "cannot write the log file {}", path);
    return log;
  }
  template <class... Args>
  void Line(fmt::format_string<Args...> format, Args&&... args) {
    if (!file_.is_open()) return;
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    file_ << fmt::format("{:%FT%TZ} ", fmt::gmtime(now))
          << fmt::format(format, std::forward<Args>(args)...) << std::endl;
  }

 private:
  std::ofstream file_;
};

// Returns the manifest that the user named, the Pie.toml beside the component, or an empty one.
Result<host::Manifest> FindManifest(const RunOptions& options) {
  if (!options.manifest.empty()) return host::ReadManifest(options.manifest);
  auto beside = std::filesystem::path(options.path).parent_path() / "Pie.toml";
  if (std::filesystem::exists(beside)) return host::ReadManifest(beside.string());
  host::Manifest manifest;
  manifest.name = std::filesystem::path(options.path).stem().string();
  manifest.version = "0.0.0";
  return manifest;
}

void PrintCounts(host::Engine& engine) {
  engine.WaitIdle(2000);
  host::EngineStats stats = engine.stats();
  fmt::print(stderr,
             "counts: instances={} handles={} contexts={} pages={} snapshots={} topics={}\n",
             stats.instances, stats.handles, stats.sequences - stats.snapshots, stats.pages,
             stats.snapshots, stats.topics);
}

struct Chosen {
  std::string component;
  host::Manifest manifest;
};

// Finds the component: a file, or an installed program.
Result<Chosen> ChooseProgram(const RunOptions& options) {
  if (!options.path.empty()) {
    return Chosen{PIE_TRY(ReadComponent(options.path)), PIE_TRY(FindManifest(options))};
  }
  if (options.program.empty()) {
    return Fail(
        Code::kInvalid,
        "no program was named: use its file (pie run --path OUT.wasm), or the name of one that "
        "is installed (pie inferlet list)");
  }
  auto registry = PIE_TRY(server::Registry::Open(HomeDir() + "/programs"));
  auto found = registry->Find(options.program);
  // The name of a file or folder: a newcomer's guess.
  if (!found && std::filesystem::is_regular_file(options.program)) {
    return Fail(Code::kNotFound,
                "no program '{0}' is installed; to run this file: pie run --path {0}",
                options.program);
  }
  if (!found && std::filesystem::is_directory(options.program)) {
    return Fail(Code::kNotFound,
                "no program '{0}' is installed; to run this folder: pie build {0} -o OUT.wasm, "
                "then pie run --path OUT.wasm",
                options.program);
  }
  const auto program = PIE_TRY(std::move(found));
  return Chosen{PIE_TRY(registry->ReadComponent(program)),
                PIE_TRY(host::ParseManifest(program.manifest, program.id()))};
}

Result<int> RunChecked(const RunOptions& options) {
  LogFile log = PIE_TRY(LogFile::Open(options.log));
  Config config = PIE_TRY(ReadConfig(options.config));
  auto [component, manifest] = PIE_TRY(ChooseProgram(options));
  nlohmann::json input = PIE_TRY(MakeInput(options.input, options.arguments, manifest));
  if (!options.dummy.empty()) UseDummy(config, options.dummy);

  Interrupts interrupts;
  auto engine = PIE_TRY(StartEngine(config, options.quiet));
  {
    std::unique_ptr<Spinner> spinner;
    auto on_compile = [&] {
      log.Line("compiling {}", manifest.id());
      spinner = std::make_unique<Spinner>("compiling " + manifest.name + " (first run only)",
                                          !options.quiet);
    };
    PIE_RETURN_IF_ERROR(engine->AddProgram(manifest, component, on_compile));
  }
  component.clear();
  component.shrink_to_fit();

  auto printer = std::make_shared<Printer>(options);
  auto process = PIE_TRY(engine->Launch(manifest.id(), input.dump(), {.listener = printer}));
  log.Line("launched {} as {}", manifest.id(), process->id());
  interrupts.Watch([process] { process->Cancel(); });
  printer->StopIfUnread(process);
  wasm::Exit exit = process->Wait();
  log.Line("{} ended: {}", process->id(),
           exit.kind == wasm::Exit::Kind::kReturned ? "ok" : exit.text);

  int code = 0;
  switch (exit.kind) {
    case wasm::Exit::Kind::kReturned:
      if (Status printed = printer->Return(exit.text); !printed) {
        code = ReportError(printed.error().text);
      }
      break;
    case wasm::Exit::Kind::kCancelled:
      if (Status written = printer->written(); !written) {
        code = ReportError(written.error().text);
        break;
      }
      if (!options.quiet) fmt::print(stderr, "\n{}\n", Dim("stopped"));
      code = kInterrupted;
      break;
    case wasm::Exit::Kind::kFailed:
    case wasm::Exit::Kind::kTrapped:
      std::fflush(stdout);
      code = ReportError(exit.text);
      break;
  }
  if (options.debug) PrintCounts(*engine);
  if (code != kInterrupted && !AwaitOptimiser(*engine, manifest.id(), interrupts, options.quiet)) {
    std::fflush(stdout);
    _exit(code);  // exits at once, because the compiler's threads are still running
  }
  return code;
}

}  // namespace

int Run(const RunOptions& options) {
  try {
    auto code = RunChecked(options);
    return code ? *code : ReportError(code.error().text);
  } catch (const std::exception& error) {  // from a library, for example out of memory
    return ReportError(error.what());
  }
}

}  // namespace pie::cli
