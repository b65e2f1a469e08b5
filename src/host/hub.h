// Hub: messages between inferlets of one engine. Topics belong to a user. Any thread may use it.
//
// Queues are first in, first out, one reader a message; a push to a full queue fails. A broadcast
// reaches every present subscriber; one whose buffer is full loses its oldest message. What a
// user's topics keep in all has an end too.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/byte_budget.h"
#include "host/limits.h"
#include "host/mailbox.h"
#include "wasm/signal.h"

namespace pie::host {

// One broadcast, shared by all who have not read it yet.
struct Broadcast {
  std::string text;
  Charge charge;
};

class Subscription {
 public:
  explicit Subscription(const Limits& limits) : limits_(limits) {}
  void Offer(std::shared_ptr<const Broadcast> message);
  std::optional<std::string> Take();
  void Close();  // ready for ever, with nothing more to come
  bool closed() const;
  wasm::Signal& signal() { return signal_; }

 private:
  const Limits& limits_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<const Broadcast>> messages_;
  size_t bytes_ = 0;
  bool closed_ = false;
  wasm::Signal signal_;
};

class Hub {
 public:
  explicit Hub(const Limits& limits) : limits_(limits) {}

  Status Push(std::string_view user, std::string_view topic, std::string message);
  Result<std::shared_ptr<Letter>> Pull(std::string_view user, std::string_view topic);
  Status Broadcast(std::string_view user, std::string_view topic, std::string message);
  Result<std::shared_ptr<Subscription>> Subscribe(std::string_view user, std::string_view topic);
  // Topics that hold anything.
  size_t topics();

 private:
  struct Topic {
    std::shared_ptr<Mailbox> queue;
    std::vector<std::weak_ptr<Subscription>> subscribers;
    size_t drop_expired_at = 64;  // subscribers
    bool idle() const;
  };
  using Key = std::pair<std::string, std::string>;                     // user, topic
  Result<Topic*> Find(std::string_view user, std::string_view topic);  // with the mutex held
  std::shared_ptr<ByteBudget> BudgetOf(std::string_view user);
  Result<Mailbox*> FindQueue(std::string_view user, std::string_view topic);
  void Prune();

  const Limits& limits_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<ByteBudget>, std::less<>> budgets_;  // by user
  std::map<Key, Topic> topics_;
  size_t prune_at_ = 256;
};

}  // namespace pie::host
