// Messages between inferlets of one engine: queues (one receiver a message) and broadcasts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "inferlet/bindings.h"
#include "inferlet/result.h"
#include "inferlet/task.h"

namespace inferlet::messaging {

// Appends to a queue. An error when the queue is full, or the topic or message is too long.
Result<void> Push(std::string_view topic, std::string_view message);
// Waits for the next message of a queue.
Task<Result<std::string>> Pull(std::string_view topic);
// Hands a message to everyone who is subscribed now. An error when it is too long.
Result<void> Broadcast(std::string_view topic, std::string_view message);

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
  Task<std::optional<std::string>> Next() const { return GetAsync(); }
  void Unsubscribe() const;

 private:
  std::shared_ptr<pie::core::messaging::Subscription> raw_;
};

Result<Subscription> Subscribe(std::string_view topic);

}  // namespace inferlet::messaging
