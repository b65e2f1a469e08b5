// The session with the client, and messages between inferlets.
#include "inferlet/messaging.h"
#include "inferlet/reactor.h"
#include "inferlet/session.h"

namespace inferlet {

using detail::List;
using detail::Text;

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

void Send(std::string_view message) {
  host::Send(message);
}
void Send(const Json& message) {
  host::Send(message.IsString() ? *message.As<std::string>() : message.Dump());
}
void SendFile(std::span<const uint8_t> data) {
  host::SendFile(data);
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

void Push(std::string_view topic, std::string_view message) {
  host::Push(topic, message);
}
Task<std::optional<std::string>> Pull(std::string_view topic) {
  return TextOf(host::Pull(topic));
}
void Broadcast(std::string_view topic, std::string_view message) {
  host::Broadcast(topic, message);
}
Subscription Subscribe(std::string_view topic) {
  return Subscription(host::Subscribe(topic));
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
void Subscription::Unsubscribe() const {
  raw_->Unsubscribe();
}

}  // namespace messaging

}  // namespace inferlet
