#include "cli/testing/test_run.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "cli/testing/test_client.h"

namespace pie::cli {
namespace {

using Event = TestClient::Event;
constexpr size_t kMostShown = 2'000;

std::string Shown(std::string_view text) {
  return nlohmann::json(ToValidUtf8(text.substr(0, kMostShown))).dump() +
         (text.size() > kMostShown ? " …" : "");
}

class Run {
 public:
  Run(TestEngine& engine, const TestCase& test)
      : engine_(engine),
        test_(test),
        deadline_(std::chrono::steady_clock::now() + std::chrono::seconds(test.timeout_secs)) {}

  std::vector<std::string> Play(const host::Manifest& manifest, Interrupts& interrupts) {
    if (Status ready = Start(manifest); !ready) {
      // A launch may be refused as the test expects, for example because of its input.
      if (!test_.error) return {ready.error().text};
      Check(test_.error, "the error", ready.error().text);
      return problems_;
    }
    interrupts.Watch([process = process_] { process->Cancel(); });
    const bool played = PlaySession();
    process_->CloseInbox();
    if (played) AwaitEnd();
    if (!problems_.empty()) process_->Cancel();
    const wasm::Exit exit = process_->Wait();
    interrupts.Watch(nullptr);
    if (problems_.empty()) CheckExit(exit);
    if (!problems_.empty()) AddHints(exit);
    return problems_;
  }

 private:
  Status Start(const host::Manifest& manifest) {
    PIE_RETURN_IF_ERROR(engine_.Prepare(test_));
    host::Process::Options options{.username = kTestUser, .listener = client_};
    if (test_.request) {
      const TestRequest& given = *test_.request;
      const wasm::HttpRequest request{.method = given.method,
                                      .target = given.path,
                                      .authority = "localhost",
                                      .headers = given.headers};
      process_ = PIE_TRY(engine_.engine().Serve(manifest.id(), request, std::move(options)));
      process_->PassBody(given.body, true);
      return {};
    }
    process_ =
        PIE_TRY(engine_.engine().Launch(manifest.id(), test_.input.dump(), std::move(options)));
    return {};
  }

  // False if a step failed.
  bool PlaySession() {
    for (size_t i = 0; i < test_.session.size(); ++i) {
      const TestStep& step = test_.session[i];
      if (auto problem = Play(step)) {
        problems_.push_back(
            fmt::format("step {} of the session (line {}): {}", i + 1, step.line, *problem));
        return false;
      }
    }
    return true;
  }

  std::optional<std::string> Play(const TestStep& step) {
    using Kind = TestStep::Kind;
    if (step.kind == Kind::kSend || step.kind == Kind::kSendFile) {
      const Status sent = step.kind == Kind::kSend ? process_->SendMessage(step.text)
                                                   : process_->SendFile(step.text);
      return sent ? std::nullopt : std::optional(sent.error().text);
    }
    const bool is_file = step.kind == Kind::kExpectFile;
    std::string got;
    do {
      const auto event = client_->Next(deadline_);
      if (!event || event->kind == Event::Kind::kEnd) return Missing(event.has_value(), got);
      if ((event->kind == Event::Kind::kFile) != is_file) {
        return is_file
                   ? "expected a file, got the message " + Shown(event->text)
                   : fmt::format("expected a message, got a file of {} bytes", event->text.size());
      }
      got += event->text;
    } while (step.kind == Kind::kExpectStream && got.size() < step.text.size());
    if (step.kind == Kind::kExpect) return step.expected.DifferenceOf("the message", got);
    return Expectation{.text = step.text}.DifferenceOf(is_file ? "the file" : "the stream", got);
  }

  std::string Missing(bool ended, const std::string& got) const {
    const std::string so_far = got.empty() ? "" : ", after " + Shown(got);
    return ended ? "the inferlet ended without the expected message" + so_far
                 : fmt::format("no message came within {} s{}", test_.timeout_secs, so_far);
  }

  void AwaitEnd() {
    while (true) {
      const auto event = client_->Next(deadline_);
      if (!event) {
        problems_.push_back(
            fmt::format("the inferlet did not end within {} s (timeout_secs)", test_.timeout_secs));
        return;
      }
      if (event->kind == Event::Kind::kEnd) return;
      if (test_.counts_messages) {
        problems_.push_back(
            event->kind == Event::Kind::kFile
                ? fmt::format("the inferlet sent one more file, of {} bytes", event->text.size())
                : "the inferlet sent one more message: " + Shown(event->text));
        return;
      }
    }
  }

  void Check(const std::optional<Expectation>& expected, std::string_view what,
             std::string_view got) {
    if (!expected) return;
    if (auto problem = expected->DifferenceOf(what, got)) problems_.push_back(*std::move(problem));
  }

  void CheckExit(const wasm::Exit& exit) {
    Check(test_.output, "the output", client_->stdout_text());
    switch (exit.kind) {
      case wasm::Exit::Kind::kReturned:
        if (test_.error) {
          problems_.push_back(
              fmt::format("the inferlet was expected to fail ({}), but it returned {}",
                          Shown(test_.error->text), Shown(exit.text)));
        } else if (test_.request) {
          CheckResponse();
        } else {
          Check(test_.returns, "the return value", exit.text);
        }
        return;
      case wasm::Exit::Kind::kFailed:
      case wasm::Exit::Kind::kTrapped:
        if (test_.error) return Check(test_.error, "the error", exit.text);
        problems_.push_back("the inferlet failed: " + ToValidUtf8(exit.text));
        return;
      case wasm::Exit::Kind::kCancelled:
        problems_.emplace_back("stopped");
    }
  }

  void CheckResponse() {
    if (test_.status && *test_.status != client_->status()) {
      problems_.push_back(fmt::format("the status of the response is {}, not {}", client_->status(),
                                      *test_.status));
    }
    Check(test_.response, "the response", client_->response());
  }

  // Adds problems that may explain the others.
  void AddHints(const wasm::Exit& exit) {
    const bool failed =
        exit.kind == wasm::Exit::Kind::kFailed || exit.kind == wasm::Exit::Kind::kTrapped;
    if (failed && !test_.session.empty() && !problems_[0].starts_with("the inferlet failed")) {
      problems_.push_back("the inferlet failed: " + ToValidUtf8(exit.text));
    }
    if (!test_.answers.empty()) {
      for (const std::string& prompt : engine_.script().Unanswered()) {
        problems_.push_back(
            "the model was asked something that no answer is for, and made up "
            "text: " +
            Shown(prompt));
      }
      for (const size_t index : engine_.script().NeverGiven()) {
        problems_.push_back(fmt::format("the model was never asked for answer {}, which says {}",
                                        index + 1, Shown(test_.answers[index].say[0])));
      }
    }
    if (const std::string output = client_->output(); !output.empty() && !test_.output) {
      problems_.push_back("the inferlet printed " + Shown(output));
    }
  }

  TestEngine& engine_;
  const TestCase& test_;
  const TestClient::Time deadline_;
  const std::shared_ptr<TestClient> client_ = std::make_shared<TestClient>();
  std::shared_ptr<host::Process> process_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> RunTest(TestEngine& engine, const host::Manifest& manifest,
                                 const TestCase& test, Interrupts& interrupts) {
  return Run(engine, test).Play(manifest, interrupts);
}

}  // namespace pie::cli
