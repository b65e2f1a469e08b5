// Mailbox: a queue of messages, each of which is taken once. Letter: one message of a mailbox,
// which is there already or will arrive. Any thread may use both.
//
// A Letter that is dropped unread puts its message back at the front. So no message is lost when a
// receive loses a race against a timer.
#pragma once

#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/result.h"
#include "host/byte_budget.h"
#include "wasm/signal.h"

namespace pie::host {

class Mailbox;

struct Message {
  std::string text;
  Charge charge = {};  // for its memory, to the user who sent it
};

class Letter {
 public:
  explicit Letter(std::shared_ptr<Mailbox> box) : box_(std::move(box)) {}
  ~Letter();
  Letter(const Letter&) = delete;
  Letter& operator=(const Letter&) = delete;

  // Returns the message, once. Returns nothing while there is none, and also after the box was
  // closed and emptied.
  std::optional<std::string> Take();
  wasm::Signal& signal() { return signal_; }

 private:
  friend class Mailbox;
  std::shared_ptr<Mailbox> box_;
  wasm::Signal signal_;
  // Guarded by the box's mutex.
  std::optional<Message> message_;
  std::optional<std::list<Letter*>::iterator> place_;  // among those that wait
};

class Mailbox : public std::enable_shared_from_this<Mailbox> {
 public:
  Mailbox(size_t max_messages, size_t max_bytes)
      : max_messages_(max_messages), max_bytes_(max_bytes) {}

  // `charge` has the budget of the user who sends the message, and has taken nothing from it yet.
  Status Push(std::string text, Charge charge = {});
  // Returns a letter for the next message. Letters are served in the order of these calls.
  std::shared_ptr<Letter> Receive();
  // Says that no further message will arrive. Waiting letters are told so.
  void Close();
  // Says that the writer has left and may come back. Waiting letters are told that there is
  // nothing. If there are none, the next letter is told so, once. Messages in the box are delivered
  // first.
  void Interrupt();
  void Resume();  // the writer is back: a pending Interrupt is forgotten

  // Whether no letter waits, and there is no message in the box or in an unread letter.
  bool idle() const;
  bool awaited() const;  // whether a letter waits for a message

 private:
  friend class Letter;
  // Called with the mutex held.
  void Deliver();
  void TellWaiting();
  void Forget(size_t bytes);

  const size_t max_messages_, max_bytes_;
  mutable std::mutex mutex_;
  std::deque<Message> messages_;
  size_t kept_ = 0;   // messages here and in unread letters
  size_t bytes_ = 0;  // the memory of those messages
  // A letter leaves the list when it is served, told or destroyed, so nothing remains of letters
  // that were dropped.
  std::list<Letter*> waiting_;
  bool closed_ = false;
  bool interrupted_ = false;  // the writer has left, and no letter was told
};

}  // namespace pie::host
