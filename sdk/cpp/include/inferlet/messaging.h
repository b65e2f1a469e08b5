// Messages between inferlets of one engine: queues (one receiver a message) and broadcasts.
#pragma once

#include <cstddef>
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

// Appends to a queue. An error when the queue is full, or the topic or message is too long.
Result<void> Push(std::string_view topic, std::string_view message);
// A string goes out as it is, everything else as JSON.
Result<void> Push(std::string_view topic, const Json& message);
inline Result<void> Push(std::string_view topic, const char* message) {
  return Push(topic, std::string_view(message));
}
inline Result<void> Push(std::string_view topic, const std::string& message) {
  return Push(topic, std::string_view(message));
}
// The same, but waits while the queue is full.
Task<Result<void>> PushWait(std::string topic, std::string message);
// Waits for the next message of a queue. An error when the topic is too long.
Task<Result<std::string>> Pull(std::string_view topic);
// Hands a message to everyone who is subscribed now. An error when it is too long.
Result<void> Broadcast(std::string_view topic, std::string_view message);
Result<void> Broadcast(std::string_view topic, const Json& message);
inline Result<void> Broadcast(std::string_view topic, const char* message) {
  return Broadcast(topic, std::string_view(message));
}
inline Result<void> Broadcast(std::string_view topic, const std::string& message) {
  return Broadcast(topic, std::string_view(message));
}

// Keeps the messages of a topic until they are read. A handle: copies mean the same subscription.
class Subscription {
 public:
  explicit Subscription(pie::core::messaging::Subscription raw);

  // Ready when a message is here.
  wasi::io::poll::Pollable Pollable() const { return raw_->Pollable(); }
  // The next message if one is here already.
  std::optional<std::string> Get() const;
  // Waits for the next message; none after Unsubscribe.
  Task<std::optional<std::string>> GetAsync() const;
  // The same as GetAsync.
  Task<std::optional<std::string>> Next() const { return GetAsync(); }
  // How many messages were lost because the buffer was full: the oldest ones.
  uint64_t Dropped() const { return pie::plus::broadcasts::Dropped(*raw_); }
  // Ends the subscription. Messages that are here already can still be read.
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

// Begins to keep the broadcasts of a topic. An error when the topic is too long.
Result<Subscription> Subscribe(std::string_view topic);

}  // namespace inferlet::messaging
