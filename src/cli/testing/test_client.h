// TestClient: receives the output of an inferlet for a test. The engine's threads call it as a
// Listener; one thread takes the events. It keeps everything that the inferlet says until the test
// is over.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "host/process.h"

namespace pie::cli {

class TestClient final : public host::Listener {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Event {
    enum class Kind { kMessage, kFile, kEnd };
    Kind kind = Kind::kMessage;
    std::string text;
  };

  // The next event, or nothing if there is none before the deadline. The last event is kEnd, again
  // and again.
  std::optional<Event> Next(Time deadline);

  std::string output() const;  // stdout and stderr, mixed as they came
  std::string stdout_text() const;
  uint16_t status() const;       // of the response; 0 if there is none
  std::string response() const;  // its body

  void OnMessage(std::string_view text) override { Push(Event::Kind::kMessage, text); }
  void OnFile(std::string_view bytes) override { Push(Event::Kind::kFile, bytes); }
  void OnOutput(bool is_stderr, std::string_view bytes) override;
  void OnResponse(uint16_t status, std::string_view headers) override;
  void OnResponseBody(std::string_view bytes) override;
  void OnExit(const wasm::Exit&) override { Push(Event::Kind::kEnd, ""); }

 private:
  void Push(Event::Kind kind, std::string_view text);

  mutable std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Event> events_;
  std::string output_, stdout_, response_;
  uint16_t status_ = 0;
};

}  // namespace pie::cli
