// Messages between inferlets of one engine: queues (each message has one receiver) and broadcasts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "inferlet/bindings.h"
#include "inferlet/json.h"
#include "inferlet/result.h"
#include "inferlet/task.h"

namespace inferlet::messaging {

// Appends to a queue. Fails if the queue is full, or the topic or message is too long.
Result<void> Push(std::string_view topic, std::string_view message);
// Appends a JSON value to a queue: a string as it is, everything else as JSON.
Result<void> Push(std::string_view topic, const Json& message);
inline Result<void> Push(std::string_view topic, const char* message) {
  return Push(topic, std::string_view(message));
}
inline Result<void> Push(std::string_view topic, const std::string& message) {
  return Push(topic, std::string_view(message));
}
// Appends to a queue. Waits while the queue is full.
Task<Result<void>> PushWait(std::string topic, std::string message);
// Waits for the next message of a queue. Fails if the topic is too long.
Task<Result<std::string>> Pull(std::string_view topic);
// Sends a message to all present subscribers. Fails if the topic or message is too long.
Result<void> Broadcast(std::string_view topic, std::string_view message);
Result<void> Broadcast(std::string_view topic, const Json& message);
inline Result<void> Broadcast(std::string_view topic, const char* message) {
  return Broadcast(topic, std::string_view(message));
}
inline Result<void> Broadcast(std::string_view topic, const std::string& message) {
  return Broadcast(topic, std::string_view(message));
}

// Keeps the messages of a topic until they are read. It is a handle: copies mean the same
// subscription.
class Subscription {
 public:
  explicit Subscription(pie::core::messaging::Subscription raw);

  // Returns a pollable that is ready when there is a message.
  wasi::io::poll::Pollable Pollable() const { return raw_->Pollable(); }
  // Returns the next message, or none if there is none yet.
  std::optional<std::string> Get() const;
  // Waits for the next message. Returns none after Unsubscribe.
  Task<std::optional<std::string>> GetAsync() const;
  // Does the same as GetAsync.
  Task<std::optional<std::string>> Next() const { return GetAsync(); }
  // How many messages were dropped, oldest first, because the buffer was full.
  uint64_t Dropped() const { return pie::plus::broadcasts::Dropped(*raw_); }
  // Ends the subscription. Messages that have arrived can still be read.
  void Unsubscribe() const;

  // `for (const std::string& message : subscription)` waits for one message after the other, until
  // Unsubscribe. In a coroutine, `while (auto message = co_await subscription.Next())` lets others
  // run meanwhile.
  class Iterator {
   public:
    using value_type = std::string;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(const Subscription& of) : subscription_(&of) { ++*this; }
    const std::string& operator*() const { return *message_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !message_; }

   private:
    const Subscription* subscription_;
    std::optional<std::string> message_;
  };
  // Waits for the first message.
  Iterator begin() const { return Iterator(*this); }
  // Reached after Unsubscribe.
  std::default_sentinel_t end() const { return {}; }

 private:
  std::shared_ptr<pie::core::messaging::Subscription> raw_;
};

// Begins to keep the broadcasts of a topic. Fails if the topic is too long.
Result<Subscription> Subscribe(std::string_view topic);

}  // namespace inferlet::messaging
