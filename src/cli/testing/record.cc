#include "cli/testing/record.h"

#include <fmt/format.h>
#include <poll.h>
#include <toml++/toml.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "base/whole_file.h"
#include "cli/interrupts.h"
#include "cli/models.h"
#include "cli/start_engine.h"
#include "cli/terminal.h"
#include "cli/testing/script_file.h"
#include "speech/turn_recorder.h"

namespace pie::cli {
namespace {

constexpr int kPollMs = 50;
// The client leaves when its lines have ended and the inferlet has been quiet for this long.
constexpr auto kQuiet = std::chrono::seconds(2);

// Records the messages of both sides, and prints those of the inferlet on stdout.
class Recorder final : public host::Listener {
 public:
  void OnMessage(std::string_view text) override {
    fmt::print("{}\n", Harmless(text));
    std::fflush(stdout);
    std::lock_guard lock(mutex_);
    last_ = Clock::now();
    heard_.emplace_back(ToValidUtf8(text));
  }
  void OnFile(std::string_view bytes) override {
    fmt::print(stderr, "{}\n", Dim(fmt::format("[a file of {} bytes]", bytes.size())));
  }
  void OnOutput(bool is_stderr, std::string_view bytes) override {
    fmt::print(is_stderr ? stderr : stdout, "{}", Harmless(bytes));
  }
  void OnExit(const wasm::Exit&) override { ended_ = true; }
  bool ended() const { return ended_; }
  bool quiet() {
    std::lock_guard lock(mutex_);
    return Clock::now() - last_ > kQuiet;
  }

  void Sent(const std::string& text) {
    std::lock_guard lock(mutex_);
    WriteHeard();
    last_ = Clock::now();
    steps_.push_back(toml::table{{"send", ToValidUtf8(text)}});
  }
  toml::array Steps() {
    std::lock_guard lock(mutex_);
    WriteHeard();
    return steps_;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Consecutive messages of the inferlet are one stream. Where a stream is cut into messages
  // depends on the model's tokens.
  void WriteHeard() {
    if (heard_.size() == 1) steps_.push_back(toml::table{{"expect", heard_[0]}});
    if (heard_.size() > 1) {
      std::string stream;
      for (const std::string& text : heard_) stream += text;
      steps_.push_back(toml::table{{"expect_stream", stream}});
    }
    heard_.clear();
  }

  std::atomic<bool> ended_ = false;
  std::mutex mutex_;
  Clock::time_point last_ = Clock::now();  // when either side said something
  std::vector<std::string> heard_;         // since the last step
  toml::array steps_;
};

// Passes the lines of standard input on, until they end or the inferlet does.
void PassLines(host::Process& process, Recorder& recorder) {
  std::string pending;
  while (!recorder.ended()) {
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (poll(&input, 1, kPollMs) <= 0) continue;
    char bytes[4096];
    const ssize_t count = read(STDIN_FILENO, bytes, sizeof bytes);
    if (count > 0) pending.append(bytes, static_cast<size_t>(count));
    if (count <= 0 && !pending.empty()) pending += '\n';
    for (size_t end = pending.find('\n'); end != pending.npos; end = pending.find('\n')) {
      std::string line = pending.substr(0, end);
      pending.erase(0, end + 1);
      recorder.Sent(line);
      if (Status sent = process.SendMessage(std::move(line)); !sent) {
        ReportError(sent.error().text);
      }
    }
    if (count <= 0) break;
  }
  while (!recorder.ended() && !recorder.quiet()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
  }
  process.CloseInbox();
}

toml::table TableOf(const nlohmann::json& object);
toml::array ListOf(const nlohmann::json& values);

// Calls `insert` with the value in TOML's types. TOML has no null, so such a value is left out.
template <class Insert>
void Put(const nlohmann::json& value, Insert&& insert) {
  if (value.is_object()) {
    insert(TableOf(value));
  } else if (value.is_array()) {
    insert(ListOf(value));
  } else if (value.is_string()) {
    insert(value.get<std::string>());
  } else if (value.is_boolean()) {
    insert(value.get<bool>());
  } else if (value.is_number_integer()) {
    insert(value.get<int64_t>());
  } else if (value.is_number()) {
    insert(value.get<double>());
  }
}

toml::array ListOf(const nlohmann::json& values) {
  toml::array list;
  for (const auto& value : values) {
    Put(value, [&](auto made) { list.push_back(std::move(made)); });
  }
  return list;
}

toml::table TableOf(const nlohmann::json& object) {
  toml::table table;
  for (const auto& [key, value] : object.items()) {
    const std::string& name = key;
    Put(value, [&](auto made) { table.insert_or_assign(name, std::move(made)); });
  }
  return table;
}

}  // namespace

Status RecordTest(Config config, const TestProgram& program, const nlohmann::json& input,
                  const std::string& path, bool quiet) {
  if (std::filesystem::exists(path)) {
    return Fail(Code::kInvalid, "{} exists already; choose another name", path);
  }
  Interrupts interrupts;
  auto turns = std::make_shared<TurnRecorder>();
  config.models[0].recorder = turns;
  config.limits.user_share_percent = 100;
  auto engine = PIE_TRY(StartEngine(config, quiet));
  PIE_RETURN_IF_ERROR(engine->AddProgram(program.manifest, program.component, [] {}));
  auto recorder = std::make_shared<Recorder>();
  auto process = PIE_TRY(engine->Launch(program.manifest.id(), input.dump(),
                                        {.username = kTestUser, .listener = recorder}));
  interrupts.Watch([process] { process->Cancel(); });
  PassLines(*process, *recorder);
  const wasm::Exit exit = process->Wait();
  if (exit.kind == wasm::Exit::Kind::kCancelled) {
    return Fail(Code::kCancelled, "the session was stopped, so nothing was recorded");
  }

  toml::table test;
  test.insert("name", std::filesystem::path(path).stem().string());
  const ModelEntry& model = config.models[0];
  if (model.driver != ModelEntry::Driver::kDummy) {
    test.insert("vocabulary", model.weights.empty() ? kDefaultModel : model.weights);
  }
  test.insert("input", TableOf(input));
  if (toml::array steps = recorder->Steps(); !steps.empty()) test.insert("session", steps);
  const bool returned = exit.kind == wasm::Exit::Kind::kReturned;
  const std::string text = ToValidUtf8(exit.text);
  test.insert(returned ? "returns" : "error", returned ? text : text.substr(0, text.find('\n')));
  if (returned) fmt::print("{}\n", Harmless(text));
  if (auto answers = turns->Answers(); !answers.empty()) {
    test.insert("answer", AnswersToToml(answers));
  }
  std::ostringstream file;
  file << toml::toml_formatter(toml::table{{"test", toml::array{std::move(test)}}}) << '\n';
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  return WriteWhole(path, file.str());
}

}  // namespace pie::cli
