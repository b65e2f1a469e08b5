// Session: the events of a process on their way to its client, and the client's handle of the
// process.
//
// Events are numbered from 1 and kept in a ring until they are sent. One client at a time takes
// them, in order: the one that launched or attached last. While no client is attached, the ring
// keeps the newest events and drops the oldest; the client is then told how many were lost. While a
// client is attached but slow, the process waits (`Full`), so nothing is lost and no other process
// is slowed down.
//
// A client that asked for numbered events (`seen`) can also take events again that were sent but
// may not have arrived: they stay as long as the ring has room.
//
// Guest threads put events in; the IO thread takes them out. Both hold the lock only briefly.
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
#include "host/mcp.h"
#include "host/process.h"
#include "server/codec.h"
#include "server/limits.h"
#include "server/stderr_log.h"

namespace pie::server {

class Session;

// A client that takes events. Any thread may call `Wake` when there may be an event to take.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void Wake(const std::shared_ptr<Session>& session) = 0;
  // The MCP servers that the client runs. Null: none.
  virtual std::shared_ptr<host::McpServers> mcp() { return nullptr; }
};

// One frame to send. `last` is set if the process will send no further frame.
struct Outgoing {
  std::string frame;
  bool last = false;
};

class Session final : public host::Listener,
                      public host::McpServers,
                      public std::enable_shared_from_this<Session> {
 public:
  struct Options {
    std::string username;
    std::string program;
    bool capture_outputs = true;
    bool numbered = false;
    Log* log = nullptr;                            // receives a copy of stderr
    std::shared_ptr<std::atomic<size_t>> running;  // number of processes that have not ended
  };
  // The session's share of the places that all users share.
  struct Places {
    host::Charge session;  // until it is destroyed
    host::Charge running;  // until its process has ended
  };
  Session(Options options, const Limits& limits, std::shared_ptr<host::ByteBudget> budget,
          Places places = {});
  ~Session() override;

  const Options& options() const { return options_; }
  const std::string& id() const { return id_; }
  // Call once, right after the launch, before a client can attach.
  void SetProcess(std::shared_ptr<host::Process> process);
  std::shared_ptr<host::Process> process() const;

  // For the IO thread. Attaching replaces the client that was attached before.
  Status Attach(std::shared_ptr<Outlet> outlet, std::optional<uint64_t> seen);
  // Does nothing if another client has replaced this one. The next client takes those events again
  // that were taken but not `Sent`.
  void Detach(const Outlet* outlet);
  bool attached() const;
  // Returns the next frame for this outlet. A file comes in chunks, one per call.
  std::optional<Outgoing> Take(const Outlet* outlet);
  // Confirms that the frames taken so far were sent.
  void Sent(const Outlet* outlet);

  // The time at which the process ended, if it has.
  std::optional<std::chrono::steady_clock::time_point> ended_at() const;

  // Text of the process that a watcher has not seen yet. Watching takes no event from the client. A
  // copy of the text is kept from the first look until no watcher has looked for a while.
  struct Seen {
    uint64_t next = 0;   // the value for `from` the next time
    bool cut = false;    // some of the text was not kept
    std::string text;    // of both stdout and stderr, and of the last event
    std::string ending;  // "return", "error", or empty while the process runs
  };
  Seen Look(uint64_t from);

  // The interface host::McpServers: the servers of the client that is attached.
  std::vector<std::string> Names() override;
  Result<std::shared_ptr<host::Pending<host::McpAnswer>>> Ask(
      const host::McpRequest& request) override;

  // The interface host::Listener, called on guest threads.
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
    size_t charged = 0;  // bytes taken from the budget
  };
  void Put(bool is_file, EventKind kind, std::string value);
  void PutLocked(Event event);
  void DropFront();
  void KeepForWatchers(const Event& event);
  bool MakeRoom(size_t bytes);
  size_t unsent() const { return events_.size() - next_; }
  bool FullLocked() const;
  std::shared_ptr<host::McpServers> ClientsServers() const;
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
  size_t confirmed_ = 0;     // events before this index were sent
  uint32_t next_chunk_ = 0;  // of the file at `next_`
  uint64_t next_seq_ = 1;
  uint64_t lost_ = 0;  // lost events that the client has not been told about
  size_t bytes_ = 0;
  const std::shared_ptr<host::ByteBudget> budget_;  // for these bytes, of all the user's sessions
  Places places_;
  // For watchers: the last text, and how many bytes there were before it.
  std::string watched_text_;
  uint64_t watched_before_ = 0;
  std::optional<std::chrono::steady_clock::time_point> watched_at_;  // the last look
  host::Charge watched_charge_;
  StderrLog stderr_log_;  // used on guest threads
  std::string carry_[2];  // of stdout and stderr: a truncated character at the end
  bool waits_ = false;    // the process waits for room
  bool woken_ = false;    // the outlet was woken since it last found nothing to take
  std::optional<std::chrono::steady_clock::time_point> ended_at_;
  bool exited_well_ = false;
  wasm::Signal room_;
};

}  // namespace pie::server
