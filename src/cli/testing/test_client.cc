#include "cli/testing/test_client.h"

#include <utility>

namespace pie::cli {

std::optional<TestClient::Event> TestClient::Next(Time deadline) {
  std::unique_lock lock(mutex_);
  if (!came_.wait_until(lock, deadline, [this] { return !events_.empty(); })) return std::nullopt;
  if (events_.front().kind == Event::Kind::kEnd) return events_.front();
  Event event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void TestClient::Push(Event::Kind kind, std::string_view text) {
  std::lock_guard lock(mutex_);
  events_.push_back({kind, std::string(text)});
  came_.notify_all();
}

void TestClient::OnOutput(bool is_stderr, std::string_view bytes) {
  std::lock_guard lock(mutex_);
  output_ += bytes;
  if (!is_stderr) stdout_ += bytes;
}

void TestClient::OnResponse(uint16_t status, std::string_view /*headers*/) {
  std::lock_guard lock(mutex_);
  status_ = status;
}

void TestClient::OnResponseBody(std::string_view bytes) {
  std::lock_guard lock(mutex_);
  response_ += bytes;
}

std::string TestClient::output() const {
  std::lock_guard lock(mutex_);
  return output_;
}

std::string TestClient::stdout_text() const {
  std::lock_guard lock(mutex_);
  return stdout_;
}

uint16_t TestClient::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

std::string TestClient::response() const {
  std::lock_guard lock(mutex_);
  return response_;
}

}  // namespace pie::cli
