#include "cli/chat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <tuple>

#include "cli/config.h"
#include "cli/interrupts.h"
#include "cli/shipped.h"
#include "cli/start_engine.h"
#include "cli/terminal.h"

namespace pie::cli {
namespace {

constexpr std::string_view kHelp =
    "  /system TEXT   begin a new conversation with this system message\n"
    "  /new           begin a new conversation\n"
    "  /speed         show tokens/s after each answer, or not\n"
    "  /exit          leave; so does Ctrl-D\n"
    "  a line that ends with \\ goes on in the next line; Ctrl-C stops an answer\n";

// Prints what the inferlet says, and knows whether an answer is under way.
class Screen final : public host::Listener {
 public:
  explicit Screen(bool speed) : speed_(speed) {}

  void OnMessage(std::string_view text) override {
    const auto message = nlohmann::json::parse(text, nullptr, false);
    if (!message.is_object()) return;
    std::lock_guard lock(mutex_);
    if (message.contains("delta") && message["delta"].is_string()) {
      fmt::print("{}", message["delta"].get<std::string>());
      std::fflush(stdout);
    }
    if (!message.contains("done")) return;
    fmt::print("\n");
    if (speed_) {
      const double seconds = message["done"].value("seconds", 0.0);
      const auto tokens = message["done"].value("tokens", uint64_t{0});
      fmt::print("{}\n", Dim(fmt::format("{} tokens, {:.1f} tokens/s", tokens,
                                         seconds > 0 ? static_cast<double>(tokens) / seconds : 0),
                             STDOUT_FILENO));
    }
    std::fflush(stdout);
    answering_ = false;
    changed_.notify_all();
  }
  void OnFile(std::string_view) override {}
  void OnOutput(bool is_stderr, std::string_view bytes) override {
    if (is_stderr) std::fwrite(bytes.data(), 1, bytes.size(), stderr);
  }
  void OnExit(const wasm::Exit&) override {
    std::lock_guard lock(mutex_);
    answering_ = false;
    ended_ = true;
    changed_.notify_all();
  }

  void BeginAnswer() {
    std::lock_guard lock(mutex_);
    answering_ = !ended_;
  }
  void AwaitAnswer() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !answering_; });
  }
  bool answering() const {
    std::lock_guard lock(mutex_);
    return answering_;
  }
  bool ended() const {
    std::lock_guard lock(mutex_);
    return ended_;
  }
  void ToggleSpeed() {
    std::lock_guard lock(mutex_);
    speed_ = !speed_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool speed_;
  bool answering_ = false, ended_ = false;
};

// Reads one turn: a line, and those that follow a line with a backslash at its end.
bool ReadTurn(std::string* turn) {
  turn->clear();
  const bool prompts = IsTerminal(STDIN_FILENO);
  for (bool more = true; more;) {
    if (prompts) fmt::print("{} ", Green(turn->empty() ? ">" : "…", STDOUT_FILENO));
    std::fflush(stdout);
    std::string line;
    if (!std::getline(std::cin, line)) return !turn->empty();
    more = line.ends_with('\\');
    if (more) line.back() = '\n';
    *turn += line;
  }
  return true;
}

Result<std::string> ReadShipped(std::string_view file) {
  const auto path = std::filesystem::path(ShippedDir()) / file;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return Fail(Code::kNotFound,
                "the inferlet of pie chat is missing: {} does not exist. Build it with "
                "scripts/build_guests.py chat",
                path.string());
  }
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

Result<int> ChatChecked(const ChatOptions& options) {
  Interrupts interrupts;
  const std::string component = PIE_TRY(ReadShipped("chat.wasm"));
  const auto manifest = PIE_TRY(host::ParseManifest(PIE_TRY(ReadShipped("chat.toml")), "Pie.toml"));
  Config config = PIE_TRY(ReadConfig(options.config));
  if (!options.dummy.empty()) UseDummy(config, options.dummy);
  auto engine = PIE_TRY(StartEngine(config, /*quiet=*/false));
  PIE_RETURN_IF_ERROR(engine->AddProgram(manifest, component, {}));

  nlohmann::json input = nlohmann::json::object();
  if (!options.model.empty()) input["model"] = options.model;
  if (!options.system.empty()) input["system"] = options.system;
  if (options.temperature) input["temperature"] = *options.temperature;
  auto screen = std::make_shared<Screen>(options.speed);
  auto process = PIE_TRY(engine->Launch(manifest.id(), input.dump(), {.listener = screen}));
  const auto send = [&](const nlohmann::json& message) {
    return process->SendMessage(
        message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  };
  // Ctrl-C stops an answer; while none is under way, it leaves.
  interrupts.WatchEach([&] {
    if (!screen->answering()) return false;
    std::ignore = send({{"stop", true}});
    return true;
  });
  if (IsTerminal(STDIN_FILENO)) fmt::print("{}", Dim("/help lists the commands\n", STDOUT_FILENO));
  for (std::string turn; !screen->ended() && ReadTurn(&turn);) {
    if (turn.empty()) continue;
    if (turn == "/exit") break;
    if (turn == "/help") {
      fmt::print("{}", kHelp);
    } else if (turn == "/speed") {
      screen->ToggleSpeed();
    } else if (turn == "/new") {
      PIE_RETURN_IF_ERROR(send({{"system", options.system}}));
    } else if (turn.starts_with("/system ")) {
      PIE_RETURN_IF_ERROR(send({{"system", turn.substr(8)}}));
    } else if (turn.starts_with('/')) {
      fmt::print("unknown command {}; /help lists the commands\n", turn);
    } else {
      screen->BeginAnswer();
      PIE_RETURN_IF_ERROR(send({{"say", turn}}));
      screen->AwaitAnswer();
    }
  }
  interrupts.WatchEach(nullptr);
  process->CloseInbox();
  const wasm::Exit exit = process->Wait();
  if (exit.kind == wasm::Exit::Kind::kReturned) return 0;
  return Fail(Code::kInternal, "the conversation has ended: {}", exit.text);
}

}  // namespace

int Chat(const ChatOptions& options) {
  auto code = ChatChecked(options);
  return code ? *code : ReportError(code.error().text);
}

}  // namespace pie::cli
