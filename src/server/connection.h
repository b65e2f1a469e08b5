// Connection: one client from its first frame to its last, without a socket. Frames go in, and
// frames come out only when the socket asks for the next one, so nothing is encoded ahead for a
// slow reader.
//
// Lives on the IO thread; only `Wake` may be called from any thread. Before authentication, the
// client may send only some messages: see kMessageTypes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "server/mcp_relay.h"
#include "server/service.h"
#include "server/session.h"
#include "server/upload.h"
#include "server/watch.h"

namespace pie::server {

// The socket as the connection sees it. IO thread.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual void Ready() = 0;  // there is a frame to send, or the client may be read from again
  virtual void Close(std::string_view reason) = 0;
};

class Connection final : public Outlet, public std::enable_shared_from_this<Connection> {
 public:
  // `wire` must live until OnClosed.
  // `network`: by which clients whose users are unknown take turns; empty: the peer's address.
  Connection(Service& service, Wire* wire, std::string peer, std::string network = {});
  ~Connection() override;

  void OnFrame(std::string_view frame);
  // The socket is gone. Processes continue, and a client may attach to them later.
  void OnClosed();

  // Returns the next frame to send, if any. Call Sent when it was written.
  std::optional<std::string> Next();
  void Sent();
  // False while too many responses wait to be sent, and while a proof is checked: then the client
  // must not be read from.
  bool Reads() const;
  bool known() const { return state_ == State::kKnown; }
  // Called with the size of the part of a message that has arrived. Returns false if the user may
  // not send more at the moment.
  bool Receiving(size_t bytes);
  const std::string& username() const { return username_; }
  const std::string& peer() const { return peer_; }

  void Wake(const std::shared_ptr<Session>& session) override;  // any thread
  std::shared_ptr<host::McpServers> mcp() override { return relay_; }

 private:
  enum class State { kUnknown, kChallenged, kProving, kKnown };

  void Handle(const AuthIdentify& message);
  void Handle(const AuthProve& message);
  void Handle(const AuthByToken& message);
  void Handle(const CheckProgram& message);
  void Handle(const Query& message);
  void Handle(const AddProgram& message);
  void Handle(const LaunchProcess& message);
  void Handle(const LaunchDaemon& message);
  void Handle(const AttachProcess& message);
  void Handle(const TerminateProcess& message);
  void Handle(const SignalProcess& message);
  void Handle(const TransferFile& message);
  void Handle(const ListProcesses& message);
  void Handle(const Ping& message);
  void Handle(const RegisterMcpServer& message);
  void Handle(const McpResponse& message);
  void Handle(const RestartDaemon& message);

  std::string Claimant() const;
  // The proof of the user was checked.
  void Proved(uint32_t corr_id, const Status& good);
  // Fails if the user has too many connections.
  Status Become(std::string username);
  void Send(std::string response);
  void Respond(uint32_t corr_id, bool ok, std::string_view result);
  void Respond(uint32_t corr_id, const Result<std::string>& result);
  void Tell(std::optional<uint32_t> corr_id, std::string_view process_id, const Status& status);
  void Attach(const std::shared_ptr<Session>& session);
  void Enqueue(const std::shared_ptr<Session>& session);
  void Launch(uint32_t corr_id, const std::string& program, std::string_view input,
              const Session::Options& options, std::optional<uint64_t> token_budget);
  // Runs `job` on the work queue and responds with its result, or passes the result to `then` on
  // the IO thread.
  using Job = Service::Job;
  using Then = std::function<void(Result<std::string>)>;
  void Defer(uint32_t corr_id, Job job, Then then = {});

  // The job that finds a program, loads it, and checks that it answers HTTP requests.
  Job LoadDaemon(std::string program);

  // A file for a process. All of its chunks have arrived.
  struct File {
    std::shared_ptr<Session> session;
    std::shared_ptr<Uploads::Whole> whole;
    std::string hash, process_id;
    std::optional<uint32_t> corr_id;
  };
  void DeliverFirst();
  void Deliver(const Result<std::string>& checked);

  Service& service_;
  Wire* wire_;
  const std::string peer_;
  const std::string network_;  // by which it takes turns while its user is unknown
  State state_ = State::kUnknown;
  std::string username_;
  std::string challenge_;
  Uploads uploads_;
  std::deque<File> files_;  // the first one is being hashed
  const std::shared_ptr<McpRelay> relay_;
  Watching watching_;
  size_t jobs_ = 0;
  host::Charge place_;      // among the connections of all users
  host::Charge receiving_;  // for the message that arrives
  std::deque<std::string> responses_;
  size_t response_bytes_ = 0;
  host::Charge responses_charge_;
  // sessions that may have an event to send, each at most once
  std::deque<std::shared_ptr<Session>> ready_;
  std::unordered_set<const Session*> queued_;  // those in `ready_`
  std::unordered_set<std::shared_ptr<Session>> attached_;
  std::shared_ptr<Session> sending_;  // session whose frame is being sent
  bool sending_last_ = false;
};

}  // namespace pie::server
