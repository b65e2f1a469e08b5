// Hub: messages between inferlets of one engine. Topics belong to a user. Any thread may use it.
//
// Queues are first in, first out, one reader a message; a push to a full queue fails. A broadcast
// reaches every present subscriber; one whose buffer is full loses its oldest message.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/limits.h"
#include "host/mailbox.h"
#include "wasm/signal.h"

namespace pie::host {

class Subscription {
 public:
  explicit Subscription(const Limits& limits) : limits_(limits) {}
  void Offer(const std::string& message);
  std::optional<std::string> Take();
  void Close();  // ready for ever, with nothing more to come
  bool closed() const;
  wasm::Signal& signal() { return signal_; }

 private:
  const Limits& limits_;
  mutable std::mutex mutex_;
  std::deque<std::string> messages_;
  size_t bytes_ = 0;
  bool closed_ = false;
  wasm::Signal signal_;
};

class Hub {
 public:
  explicit Hub(const Limits& limits) : limits_(limits) {}

  Status Push(std::string_view user, std::string_view topic, std::string message);
  Result<std::shared_ptr<Letter>> Pull(std::string_view user, std::string_view topic);
  void Broadcast(std::string_view user, std::string_view topic, const std::string& message);
  Result<std::shared_ptr<Subscription>> Subscribe(std::string_view user, std::string_view topic);
  // Topics that hold anything.
  size_t topics();

 private:
  struct Topic {
    std::shared_ptr<Mailbox> queue;
    std::vector<std::weak_ptr<Subscription>> subscribers;
    bool idle() const;
  };
  using Key = std::pair<std::string, std::string>;                     // user, topic
  Result<Topic*> Find(std::string_view user, std::string_view topic);  // with the mutex held
  void Prune();

  const Limits& limits_;
  std::mutex mutex_;
  std::map<Key, Topic> topics_;
  size_t prune_at_ = 256;
};

}  // namespace pie::host
