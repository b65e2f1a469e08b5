// Session: what a process says, on its way to its client; and the client's side of the process.
//
// Events are numbered from 1 and kept in a ring until they are sent. One client at a time takes
// them, in order: the one that launched or attached last. While none is attached the ring keeps the
// newest events, and the oldest go; what was lost is said in their place. While one is attached and
// slow, the process is told to wait (`full`), so nothing is lost and nobody else is slowed.
//
// A client that asked for numbers (`seen`) also finds events that were sent and may not have
// arrived: they stay as long as the ring has room.
//
// Guest threads put events in; the IO thread takes them out. Both lock shortly.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "host/byte_budget.h"
#include "host/process.h"
#include "server/codec.h"
#include "server/limits.h"
#include "server/stderr_log.h"

namespace pie::server {

class Session;

// A client that takes events. `Wake` comes from any thread when there may be something to take.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void Wake(const std::shared_ptr<Session>& session) = 0;
};

// One frame to send, and whether the process has nothing more to say behind it.
struct Outgoing {
  std::string frame;
  bool last = false;
};

class Session final : public host::Listener, public std::enable_shared_from_this<Session> {
 public:
  struct Options {
    std::string username;
    std::string program;
    bool capture_outputs = true;
    bool numbered = false;
    Log* log = nullptr;                            // what it writes to stderr goes there too
    std::shared_ptr<std::atomic<size_t>> running;  // counts those that have not ended
  };
  Session(Options options, const Limits& limits, std::shared_ptr<host::ByteBudget> budget);
  ~Session() override;

  const Options& options() const { return options_; }
  const std::string& id() const { return id_; }
  // Once, right after the launch and before anybody can attach.
  void SetProcess(std::shared_ptr<host::Process> process);
  std::shared_ptr<host::Process> process() const;

  // For the IO thread. Attaching takes the place of who was attached before.
  Status Attach(std::shared_ptr<Outlet> outlet, std::optional<uint64_t> seen);
  // Does nothing if another has taken the place. What was taken and not `Sent` is taken again by
  // the next.
  void Detach(const Outlet* outlet);
  bool attached() const;
  // The next frame for this outlet. A file comes in chunks, one a call.
  std::optional<Outgoing> Take(const Outlet* outlet);
  // The frames taken so far have left.
  void Sent(const Outlet* outlet);

  // When it ended.
  std::optional<std::chrono::steady_clock::time_point> ended_at() const;

  // host::Listener, on guest threads.
  void OnMessage(std::string_view text) override;
  void OnFile(std::string_view bytes) override;
  void OnOutput(bool is_stderr, std::string_view bytes) override;
  void OnExit(const wasm::Exit& exit) override;
  bool Full() override;
  wasm::Signal* room() override { return &room_; }

 private:
  struct Event {
    uint64_t seq;
    bool is_file;
    EventKind kind;
    std::string value;
    std::string hash;    // of a file
    size_t charged = 0;  // of the budget
  };
  void Put(bool is_file, EventKind kind, std::string value);
  void PutLocked(Event event);
  void DropFront();
  bool MakeRoom(size_t bytes);
  size_t unsent() const { return events_.size() - next_; }
  bool FullLocked() const;
  nlohmann::json About() const;

  const Options options_;
  const Limits& limits_;
  std::string id_;

  mutable std::mutex mutex_;
  std::shared_ptr<host::Process> process_;
  std::shared_ptr<Outlet> outlet_;
  bool numbered_ = false;
  std::deque<Event> events_;
  size_t next_ = 0;          // index of the next event to be taken
  size_t confirmed_ = 0;     // events before this index have left
  uint32_t next_chunk_ = 0;  // of the file at `next_`
  uint64_t next_seq_ = 1;
  uint64_t lost_ = 0;  // events that went unsent, not yet told
  size_t bytes_ = 0;
  const std::shared_ptr<host::ByteBudget> budget_;  // for those, with all sessions'
  StderrLog stderr_log_;                            // for guest threads
  std::string carry_[2];  // of stdout and stderr: the beginning of a character
  bool waits_ = false;    // the process does, for room
  bool woken_ = false;    // the outlet knows that there is something to take
  std::optional<std::chrono::steady_clock::time_point> ended_at_;
  wasm::Signal room_;
};

}  // namespace pie::server
