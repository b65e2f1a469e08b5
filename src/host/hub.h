// Hub: messages between inferlets of one engine. A topic belongs to one user or to all users. Any
// thread may use the hub.
//
// A queue is first in, first out, and each message has one reader. A push to a full queue fails. A
// broadcast reaches every present subscriber. A subscriber whose buffer is full loses its oldest
// message.
//
// A message is charged to the user who sent it, and a topic to the user who made it. An empty topic
// without readers is deleted. A topic that no reader waits for and that was not used for
// `topic_idle_secs` is deleted with its messages. The topics of each owner have their own lock, so
// that one user cannot delay another.
#pragma once

#include <chrono>
#include <cstdint>
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
#include "host/users.h"
#include "wasm/signal.h"

namespace pie::host {

// One broadcast, shared by all subscribers that have not read it yet.
struct Broadcast {
  std::string text;
  Charge charge;
};

class Subscription {
 public:
  explicit Subscription(const Limits& limits) : limits_(limits) {}
  void Offer(std::shared_ptr<const Broadcast> message);
  std::optional<std::string> Take();
  void Close();  // the signal stays fired, and no further message arrives
  bool closed() const;
  uint64_t dropped() const;  // messages that were lost because the buffer was full
  wasm::Signal& signal() { return signal_; }

 private:
  const Limits& limits_;
  mutable std::mutex mutex_;
  std::deque<std::shared_ptr<const Broadcast>> messages_;
  size_t bytes_ = 0;
  uint64_t dropped_ = 0;
  bool closed_ = false;
  wasm::Signal signal_;
};

class Hub {
 public:
  Hub(const Limits& limits) : limits_(limits) {}

  // `by` is the user who calls. `owner` is the user to whom the topic belongs.
  using Caller = const std::shared_ptr<User>&;
  Status Push(Caller by, std::string_view owner, std::string_view topic, std::string message);
  Result<std::shared_ptr<Letter>> Pull(Caller by, std::string_view owner, std::string_view topic);
  Status Broadcast(Caller by, std::string_view owner, std::string_view topic, std::string message);
  Result<std::shared_ptr<Subscription>> Subscribe(Caller by, std::string_view owner,
                                                  std::string_view topic);
  // The number of topics.
  size_t topics();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Topic {
    Charge charge;  // for one topic, to the user who made it
    std::shared_ptr<Mailbox> queue;
    std::vector<std::weak_ptr<Subscription>> subscribers;
    size_t drop_expired_at = 64;  // the number of subscribers at which departed ones are removed
    Time used;
    bool idle() const;
    bool abandoned(Time since) const;
  };
  // The topics of one owner.
  struct Shelf {
    std::mutex mutex;
    std::map<std::string, Topic, std::less<>> topics;
    size_t prune_at = 256;
    Time pruned;
  };
  std::shared_ptr<Shelf> ShelfOf(std::string_view owner);
  // These three are called with the shelf's mutex held.
  Result<Topic*> Find(Shelf& shelf, Caller by, std::string_view topic);
  Result<Mailbox*> FindQueue(Shelf& shelf, Caller by, std::string_view topic);
  void Prune(Shelf& shelf, Time now) const;

  const Limits& limits_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Shelf>, std::less<>> shelves_;  // by owner
  size_t forget_at_ = 64;
};

}  // namespace pie::host
