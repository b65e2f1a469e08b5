// Inbox: the events of all processes that were received and not taken yet, and whether there is
// room for more. Everything in it runs on the strand of its Core.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bell.h"
#include "pie_client/event.h"

namespace pie_client {

using Json = nlohmann::json;

template <class E>
std::exception_ptr Fault(const std::string& text) {
  return std::make_exception_ptr(E(text));
}

// A file that arrives in chunks.
struct IncomingFile {
  std::string hash;
  uint64_t total = 0;
  uint64_t next = 0;
  std::string data;
  // Adds a chunk. Returns the error, or null if there is none.
  std::exception_ptr Add(uint64_t index, uint64_t the_total, std::string_view chunk);
};

// The events of one process.
struct Mailbox {
  const std::string id;
  std::deque<std::pair<Event, std::exception_ptr>> events;  // an event, or an error instead of it
  std::optional<IncomingFile> file;
  bool discards = false;
  std::exception_ptr fault;  // why the connection broke
  Bell bell;

  // These fields change on the strand and under this lock, so any thread may read them.
  mutable std::mutex mutex;
  std::optional<uint64_t> seen;
  std::optional<Event> end;
  bool last_taken = false;

  template <class F>
  auto Locked(F look) const {
    std::lock_guard lock(mutex);
    return look(*this);
  }
};

class Inbox {
 public:
  // Creates a mailbox that takes this process's events from now on.
  std::shared_ptr<Mailbox> Adopt(const std::string& id, std::optional<uint64_t> seen);
  // Takes a frame of the server. Throws if the connection must be closed.
  void Put(const Json& frame);
  // Returns the next event, or throws the error in its place.
  asio::awaitable<Event> Take(std::shared_ptr<Mailbox> mailbox, Limit limit);
  void Discard(Mailbox& mailbox);
  // Called when the connection broke.
  void Break(const std::exception_ptr& fault);
  // Called when the process no longer exists.
  void Lose(Mailbox& mailbox, std::exception_ptr fault);
  std::vector<std::shared_ptr<Mailbox>> mailboxes() const;

  // Waits at a bell. Meanwhile the connection is read even if the inbox is full.
  template <class Ready>
  asio::awaitable<bool> Wait(Bell& bell, Limit limit, Ready ready) {
    if (ready()) co_return true;
    const Waiter waiter(*this);
    co_return co_await bell.Wait(limit, ready);
  }
  // The reader waits at this bell until there is room.
  Bell& read_on() { return read_on_; }
  bool has_room() const;

 private:
  class Waiter {
   public:
    explicit Waiter(Inbox& inbox) : inbox_(inbox) {
      ++inbox_.waiters_;
      inbox_.read_on_.Ring();
    }
    ~Waiter() { --inbox_.waiters_; }
    Waiter(const Waiter&) = delete;
    Waiter& operator=(const Waiter&) = delete;

   private:
    Inbox& inbox_;
  };
  void Uncount(const Event& event);

  std::map<std::string, std::shared_ptr<Mailbox>> mailboxes_;
  size_t waiters_ = 0;
  size_t unread_events_ = 0;
  size_t unread_bytes_ = 0;
  Bell read_on_;
};

}  // namespace pie_client
