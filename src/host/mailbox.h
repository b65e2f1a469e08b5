// Mailbox: messages in order, each to be taken once; and Letter, a message that is there or will
// be. Any thread may use either.
//
// A Letter that is dropped unread puts its message back at the front: a receive that lost a race
// against a timer loses nothing.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "host/byte_budget.h"
#include "wasm/signal.h"

namespace pie::host {

class Mailbox;

struct Message {
  std::string text;
  Charge charge = {};  // for its memory, to whoever sent it
};

class Letter {
 public:
  explicit Letter(std::shared_ptr<Mailbox> box) : box_(std::move(box)) {}
  ~Letter();
  Letter(const Letter&) = delete;
  Letter& operator=(const Letter&) = delete;

  // The message, once; nothing while there is none, and nothing for ever once the box is closed and
  // empty.
  std::optional<std::string> Take();
  wasm::Signal& signal() { return signal_; }

 private:
  friend class Mailbox;
  std::shared_ptr<Mailbox> box_;
  wasm::Signal signal_;
  std::optional<Message> message_;  // guarded by the box's mutex
};

class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  Mailbox(size_t max_messages, size_t max_bytes)
      : max_messages_(max_messages), max_bytes_(max_bytes) {}

  // `charge` has the budget of whoever sends the message, and nothing taken from it yet.
  Status Push(std::string text, Charge charge = {});
  // The next message, or the promise of one. Letters are served in the order they were asked for.
  std::shared_ptr<Letter> Receive();
  // No more messages will come: those who wait get nothing.
  void Close();
  // Whoever writes here has left, perhaps to come back. Those who wait get nothing; if nobody does,
  // the next to ask does, once. Messages that are here go first.
  void Interrupt();
  void Resume();  // it is back: who was not told need not be

  // Nobody waits, and no message is kept here or in a letter, from which it may come back.
  bool idle() const;
  bool awaited() const;  // somebody waits for a message

 private:
  friend class Letter;
  // Called with the mutex held. Letters that got something go to `served`, to be let go after
  // unlocking: theirs may be the last reference, and ~Letter locks again.
  using Served = std::vector<std::shared_ptr<Letter>>;
  void Deliver(Served& served);
  void TellWaiting(Served& told);
  void PutBack(Message message);
  void Forget(size_t bytes);
  void DropExpired();

  const size_t max_messages_, max_bytes_;
  mutable std::mutex mutex_;
  std::deque<Message> messages_;
  size_t kept_ = 0;   // messages here and in unread letters
  size_t bytes_ = 0;  // of those
  std::deque<std::weak_ptr<Letter>> waiting_;
  size_t drop_expired_at_ = 64;
  bool closed_ = false;
  bool interrupted_ = false;  // and nobody was told
};

}  // namespace pie::host
