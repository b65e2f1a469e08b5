#include "cli/chat.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <tuple>

#include "cli/config.h"
#include "cli/interrupts.h"
#include "cli/line_editor.h"
#include "cli/shipped.h"
#include "cli/start_engine.h"
#include "cli/terminal.h"

namespace pie::cli {
namespace {

constexpr std::string_view kHelp =
    "  /system TEXT      begin a new conversation with this system message\n"
    "  /new              begin a new conversation\n"
    "  /model [NAME]     list the models, or begin a new conversation with another one\n"
    "  /save NAME        keep this conversation under a name\n"
    "  /open NAME        go on with a conversation that was saved\n"
    "  /tools [NAME …]   list the MCP servers and their tools, or begin a new conversation in\n"
    "                    which the model may call the tools of these servers; /tools off\n"
    "  /think on|off     think before the answers, or not; also low, medium and high\n"
    "  /speed            show tokens/s after each answer, or not\n"
    "  /exit             leave; so does Ctrl-D\n"
    "  a line that ends with \\ goes on in the next line; Ctrl-C stops an answer\n";

// Prints the inferlet's messages, and knows whether an answer is under way.
class Screen final : public host::Listener {
 public:
  explicit Screen(bool speed) : speed_(speed) {}

  void OnMessage(std::string_view text) override {
    const auto message = nlohmann::json::parse(text, nullptr, false);
    if (!message.is_object()) return;
    std::lock_guard lock(mutex_);
    const auto text_of = [&](const char* name) {
      const auto found = message.find(name);
      return found != message.end() && found->is_string() ? Harmless(found->get<std::string>())
                                                          : "";
    };
    if (message.contains("thought")) fmt::print("{}", Dim(text_of("thought"), STDOUT_FILENO));
    if (message.contains("delta")) fmt::print("{}", text_of("delta"));
    if (message.contains("call")) {
      fmt::print("\n{}\n", Dim("→ " + text_of("call"), STDOUT_FILENO));
    }
    std::fflush(stdout);
    if (message.contains("note")) {
      fmt::print("{}\n", Dim(text_of("note"), STDOUT_FILENO));
      return Finish();
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
    Finish();
  }
  void OnFile(std::string_view) override {}
  void OnOutput(bool is_stderr, std::string_view bytes) override {
    if (is_stderr) std::fwrite(bytes.data(), 1, bytes.size(), stderr);
  }
  void OnExit(const wasm::Exit&) override {
    std::lock_guard lock(mutex_);
    ended_ = true;
    Finish();
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
  void Finish() {  // under the lock
    std::fflush(stdout);
    answering_ = false;
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool speed_;
  bool answering_ = false, ended_ = false;
};

// Reads one turn: a line, and those that follow a line with a backslash at its end. Ctrl-C drops
// them all. False at the end of the input.
bool ReadTurn(LineEditor& editor, std::string* turn) {
  turn->clear();
  for (bool more = true; more;) {
    std::string line;
    const Typed typed = editor.Read(turn->empty() ? ">" : "…", &line);
    if (typed == Typed::kEnd) return !turn->empty();
    if (typed == Typed::kDropped) {
      turn->clear();
      continue;
    }
    more = line.ends_with('\\');
    if (more) line.back() = '\n';
    *turn += line;
  }
  editor.Remember(*turn);
  return true;
}

// The message that a command sends to the inferlet, or nothing if there is no such command.
std::optional<nlohmann::json> MessageOf(const std::string& turn, const std::string& system) {
  const size_t space = turn.find(' ');
  const std::string command = turn.substr(0, space);
  const size_t start = turn.find_first_not_of(' ', space);
  const std::string rest = start == std::string::npos ? "" : turn.substr(start);
  using Json = nlohmann::json;
  if (command == "/new") return Json{{"system", system}};
  if (command == "/model") return Json{{"model", rest}};
  if (command == "/tools" && rest.empty()) return Json{{"tools", nullptr}};
  if (rest.empty()) return std::nullopt;
  if (command == "/system") return Json{{"system", rest}};
  if (command == "/think") return Json{{"think", rest}};
  if (command == "/save") return Json{{"save", rest}};
  if (command == "/open") return Json{{"open", rest}};
  if (command == "/tools") {
    Json servers = Json::array();
    std::istringstream words(rest == "off" ? "" : rest);
    for (std::string word; words >> word;) servers.push_back(word);
    return Json{{"tools", servers}};
  }
  return std::nullopt;
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

// The file of the lines that were typed before. Empty if no private file can be made.
std::string HistoryFile() {
  const std::string home = HomeDir();
  std::error_code error;
  std::filesystem::create_directories(home, error);
  const std::string file = home + "/chat_history";
  const int made = open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
  if (made < 0) return "";
  close(made);
  return file;
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
  // Ctrl-C stops an answer. While no answer is under way, Ctrl-C ends the chat, except on a
  // terminal: there the line editor reads it as a key, and a Ctrl-C before the prompt is ignored.
  LineEditor editor(HistoryFile());
  interrupts.WatchEach([&](int signal) {
    if (signal == SIGINT && screen->answering()) {
      std::ignore = send({{"stop", true}});
      return true;
    }
    if (signal == SIGINT && editor.interactive()) return true;
    editor.Restore();
    return false;
  });
  if (editor.interactive()) fmt::print("{}", Dim("/help lists the commands\n", STDOUT_FILENO));
  bool over = false;  // the inferlet reads no more messages; its exit says why
  // Sends a message, and waits until the inferlet has answered it.
  const auto ask = [&](const nlohmann::json& message) -> Status {
    screen->BeginAnswer();
    const Status sent = send(message);
    over = !sent && sent.error().code == Code::kCancelled;
    if (over) return {};
    PIE_RETURN_IF_ERROR(sent);
    screen->AwaitAnswer();
    return {};
  };
  std::string system = options.system;
  for (std::string turn; !over && !screen->ended() && ReadTurn(editor, &turn);) {
    if (turn.empty()) continue;
    if (turn == "/exit") break;
    if (turn == "/help") {
      fmt::print("{}", kHelp);
    } else if (turn == "/speed") {
      screen->ToggleSpeed();
    } else if (!turn.starts_with('/')) {
      PIE_RETURN_IF_ERROR(ask({{"say", turn}}));
    } else if (const auto message = MessageOf(turn, system)) {
      if (message->contains("system")) system = (*message)["system"];
      PIE_RETURN_IF_ERROR(ask(*message));
    } else {
      fmt::print("unknown command {}; /help lists the commands\n", Harmless(turn));
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
