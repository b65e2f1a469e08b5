// Core: what a Client and its Processes share: requests under way, what processes have said, and
// the connection. One lock and one condition for all: waiting is what a client does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pie_client/event.h"
#include "socket.h"

namespace pie_client {

using Json = nlohmann::json;
using Limit = std::optional<std::chrono::milliseconds>;

// A file of which chunks come.
struct IncomingFile {
  std::string hash;
  uint64_t total = 0;
  uint64_t next = 0;
  std::string data;
  // What is wrong with it; nothing if all is well so far.
  std::exception_ptr Add(uint64_t index, uint64_t the_total, std::string_view chunk);
};

// What one process has said and nobody has taken yet. Guarded by the Core's lock.
struct Mailbox {
  std::string id;
  std::optional<uint64_t> seen;
  std::deque<std::pair<Event, std::exception_ptr>> events;  // the latter in place of the former
  std::optional<IncomingFile> file;
  std::optional<Event> end;
  bool last_taken = false;
  bool discards = false;
  std::exception_ptr fault;  // of the connection
};

class Core {
 public:
  Core(std::string uri, std::string ca_file, std::chrono::milliseconds timeout)
      : uri_(std::move(uri)), ca_file_(std::move(ca_file)), timeout_(timeout) {}
  ~Core();

  void Open();
  void Close();
  std::chrono::milliseconds timeout() const { return timeout_; }
  // Authenticates anew as it was done last. For Client alone.
  std::function<void()> login;

  // Sends a message and waits for its response; a refusal is thrown. `on_ok` runs before any frame
  // behind the response is looked at, under the lock.
  using OnOk = std::function<void(const std::string&)>;
  std::string Ask(std::string_view type, Json fields = Json::object(), const OnOk& on_ok = {});
  // The same in chunks. One upload at a time: what the server puts together has one place.
  void Upload(std::string_view type, Json fields, std::string_view data,
              std::chrono::milliseconds limit);

  // For `on_ok`: a mailbox that takes this process's events from now on.
  std::shared_ptr<Mailbox> Adopt(const std::string& id, std::optional<uint64_t> seen);
  Event Take(Mailbox& mailbox, Limit limit);
  void Discard(Mailbox& mailbox);
  void Lose(Mailbox& mailbox, std::exception_ptr fault);
  std::vector<std::shared_ptr<Mailbox>> mailboxes();
  void Forget(const std::string& id);
  // Under the lock.
  template <class F>
  auto Locked(F read) {
    std::lock_guard lock(mutex_);
    return read();
  }

 private:
  struct Pending {
    OnOk on_ok;
    bool done = false;
    std::string result;
    std::exception_ptr fault;
  };
  using Lock = std::unique_lock<std::mutex>;
  std::pair<uint32_t, std::shared_ptr<Pending>> Begin(const OnOk& on_ok);
  void Send(std::string_view type, Json fields);
  std::string Finish(uint32_t number, const std::shared_ptr<Pending>& pending, Limit limit);
  // Waits while somebody counts as waiting, so that the socket reads on.
  template <class Ready>
  bool Wait(Lock& lock, Limit limit, Ready ready);
  bool Reads() const;
  void ReadOn(Lock& lock);

  bool OnFrame(std::string_view data);
  void OnResponse(const Json& frame);
  void OnSaid(const Json& frame);
  void Fail(const std::string& text);
  void FailLocked(const std::string& text);

  const std::string uri_, ca_file_;
  const std::chrono::milliseconds timeout_;
  std::mutex uploading_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Socket> socket_;
  std::exception_ptr fault_;
  uint32_t number_ = 0;
  std::map<uint32_t, std::shared_ptr<Pending>> pending_;
  std::map<std::string, std::shared_ptr<Mailbox>> mailboxes_;
  size_t waiters_ = 0;
  size_t unread_events_ = 0;
  size_t unread_bytes_ = 0;
  bool paused_ = false;
};

}  // namespace pie_client
