// The session with the client, and messages between inferlets.
#include "inferlet/messaging.h"

#include <algorithm>
#include <chrono>

#include "inferlet/reactor.h"
#include "inferlet/session.h"

namespace inferlet {

using detail::Lift;
using detail::List;
using detail::Text;

namespace fallible = pie::plus::fallible;

namespace {

// The futures are made by the callers, so that the host is asked at once and not when awaited.
Task<std::optional<std::string>> TextOf(pie::core::types::FutureString future) {
  const std::optional<wit::string> text = co_await detail::Answer(std::move(future));
  if (!text) co_return std::nullopt;
  co_return Text(*text);
}

Task<std::optional<std::vector<uint8_t>>> BytesOf(pie::core::types::FutureBlob future) {
  const std::optional<wit::vector<uint8_t>> bytes = co_await detail::Answer(std::move(future));
  if (!bytes) co_return std::nullopt;
  co_return List(*bytes);
}

}  // namespace

namespace session {

namespace host = pie::core::session;

Result<void> Send(std::string_view message) {
  return Lift(fallible::Send(message));
}
Result<void> Send(const Json& message) {
  return Send(message.Text());
}
Result<void> SendFile(std::span<const uint8_t> data) {
  return Lift(fallible::SendFile(data));
}
Task<std::optional<std::string>> Receive() {
  return TextOf(host::Receive());
}
Task<std::optional<std::vector<uint8_t>>> ReceiveFile() {
  return BytesOf(host::ReceiveFile());
}

}  // namespace session

namespace messaging {

namespace host = pie::core::messaging;

namespace {

Task<Result<std::string>> NextIn(std::expected<pie::core::types::FutureString, wit::string> asked) {
  if (!asked) co_return Error(Text(asked.error()));
  std::optional<std::string> message = co_await TextOf(*std::move(asked));
  if (!message) co_return Error("the queue is closed: no further message will arrive");
  co_return *std::move(message);
}

}  // namespace

Result<void> Push(std::string_view topic, std::string_view message) {
  return Lift(fallible::Push(topic, message));
}
Result<void> Push(std::string_view topic, const Json& message) {
  return Push(topic, std::string_view(message.Text()));
}
Task<Result<void>> PushWait(std::string topic, std::string message) {
  constexpr std::chrono::milliseconds kLongestPause(50);
  for (std::chrono::milliseconds pause(1);; pause = std::min(2 * pause, kLongestPause)) {
    Result<void> pushed = Push(topic, message);
    // The engine's error for a full queue begins like this.
    if (pushed || !pushed.error().starts_with("the queue is full")) co_return pushed;
    co_await Sleep(pause);
  }
}
Task<Result<std::string>> Pull(std::string_view topic) {
  return NextIn(fallible::Pull(topic));
}
Result<void> Broadcast(std::string_view topic, std::string_view message) {
  return Lift(fallible::Broadcast(topic, message));
}
Result<void> Broadcast(std::string_view topic, const Json& message) {
  return Broadcast(topic, std::string_view(message.Text()));
}
Result<Subscription> Subscribe(std::string_view topic) {
  return Lift(fallible::Subscribe(topic),
              [](host::Subscription made) { return Subscription(std::move(made)); });
}

Subscription::Subscription(host::Subscription raw)
    : raw_(std::make_shared<host::Subscription>(std::move(raw))) {}

std::optional<std::string> Subscription::Get() const {
  const std::optional<wit::string> message = raw_->Get();
  if (!message) return std::nullopt;
  return Text(*message);
}

namespace {

Task<std::optional<std::string>> NextOf(std::shared_ptr<host::Subscription> subscription) {
  std::optional<wit::string> message = subscription->Get();
  if (!message) {
    co_await Ready(subscription->Pollable());
    message = subscription->Get();
  }
  if (!message) co_return std::nullopt;
  co_return Text(*message);
}

}  // namespace

Task<std::optional<std::string>> Subscription::GetAsync() const {
  return NextOf(raw_);
}
Subscription::Iterator& Subscription::Iterator::operator++() {
  message_ = BlockOn(subscription_->Next()).value_or(std::nullopt);
  return *this;
}
void Subscription::Unsubscribe() const {
  raw_->Unsubscribe();
}

}  // namespace messaging

}  // namespace inferlet
