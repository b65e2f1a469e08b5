// Hub: messages between inferlets of one engine. Topics belong to a user, or to everybody. Any
// thread may use it.
//
// Queues are first in, first out, one reader a message; a push to a full queue fails. A broadcast
// reaches every present subscriber; one whose buffer is full loses its oldest message.
//
// A message is charged to the user who sent it, a topic to the user who made it. A topic that
// nobody uses vanishes, and so does one that nobody waits at and nobody has used for
// `topic_idle_secs`, with its messages. The topics of one owner have a lock of their own, so no
// user can hold up another.
#pragma once

#include <chrono>
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
  Hub(const Limits& limits) : limits_(limits) {}

  // `by` is who calls, `owner` is whose topic it is.
  using Caller = const std::shared_ptr<User>&;
  Status Push(Caller by, std::string_view owner, std::string_view topic, std::string message);
  Result<std::shared_ptr<Letter>> Pull(Caller by, std::string_view owner, std::string_view topic);
  Status Broadcast(Caller by, std::string_view owner, std::string_view topic, std::string message);
  Result<std::shared_ptr<Subscription>> Subscribe(Caller by, std::string_view owner,
                                                  std::string_view topic);
  // Topics that hold anything.
  size_t topics();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Topic {
    Charge charge;  // for one topic, to whoever made it
    std::shared_ptr<Mailbox> queue;
    std::vector<std::weak_ptr<Subscription>> subscribers;
    size_t drop_expired_at = 64;  // subscribers
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
  // All with the shelf's mutex held.
  Result<Topic*> Find(Shelf& shelf, Caller by, std::string_view topic);
  Result<Mailbox*> FindQueue(Shelf& shelf, Caller by, std::string_view topic);
  void Prune(Shelf& shelf, Time now) const;

  const Limits& limits_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Shelf>, std::less<>> shelves_;  // by owner
  size_t forget_at_ = 64;
};

}  // namespace pie::host
