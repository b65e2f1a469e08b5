#include "server/connection.h"

#include <utility>

namespace pie::server {
namespace {

constexpr size_t kUncountedBytes = 8ull << 10;  // of a message that arrives
// Messages of clients that are not authenticated yet are charged to this name, which no user has.
constexpr std::string_view kStrangers = "";

}  // namespace

Connection::Connection(Service& service, Wire* wire, std::string peer, std::string network)
    : service_(service),
      wire_(wire),
      peer_(std::move(peer)),
      network_(network.empty() ? peer_.substr(0, peer_.rfind(':')) : std::move(network)),
      uploads_(service.limits),
      relay_(std::make_shared<McpRelay>(service.limits)),
      receiving_(service.uploads.Of(kStrangers)) {}

Connection::~Connection() = default;

void Connection::OnFrame(std::string_view frame) {
  ++service_.messages;
  auto message = Decode(frame, service_.limits);
  if (!message) {
    ++service_.bad_frames;
    const BadFrame& bad = message.error();
    if (bad.corr_id) return Respond(*bad.corr_id, false, bad.text);
    return wire_->Close(bad.text);
  }
  const MessageType& type = kMessageTypes[message->index()];
  if (state_ != State::kKnown && !type.before_auth) {
    return wire_->Close(fmt::format("{} is not allowed before authentication", type.tag));
  }
  std::visit([this](const auto& known) { Handle(known); }, *message);
}

void Connection::OnClosed() {
  wire_ = nullptr;
  relay_->Close();
  auto attached = std::exchange(attached_, {});
  for (const auto& session : attached) session->Detach(this);
  ready_.clear();
  queued_.clear();
  sending_.reset();
}

std::optional<std::string> Connection::Next() {
  if (!responses_.empty()) {
    std::string frame = std::move(responses_.front());
    responses_.pop_front();
    response_bytes_ -= frame.size();
    responses_charge_.Resize(response_bytes_);
    return frame;
  }
  if (auto request = relay_->Next()) return request;
  while (!ready_.empty()) {
    std::shared_ptr<Session> session = std::move(ready_.front());
    ready_.pop_front();
    auto outgoing = session->Take(this);
    if (!outgoing) {  // all events are taken, or another client has attached
      queued_.erase(session.get());
      continue;
    }
    sending_last_ = outgoing->last;
    sending_ = session;
    ready_.push_back(std::move(session));  // to the back of the queue: sessions take turns
    return std::move(outgoing->frame);
  }
  return std::nullopt;
}

void Connection::Sent() {
  if (!sending_) return;
  const auto session = std::exchange(sending_, nullptr);
  session->Sent(this);
  if (!sending_last_) return;
  attached_.erase(session);
  if (session->options().numbered) {
    // the session is kept for a while, because the client may not receive this frame
    session->Detach(this);
  } else {
    service_.sessions.Remove(session->id());
  }
}

bool Connection::Reads() const {
  return state_ != State::kProving && responses_.size() < service_.limits.max_waiting_responses &&
         response_bytes_ < service_.limits.max_waiting_response_bytes &&
         jobs_ < service_.limits.max_jobs_per_connection;
}

void Connection::Wake(const std::shared_ptr<Session>& session) {
  service_.post([self = shared_from_this(), session] {
    if (self->wire_ == nullptr) return;
    self->Enqueue(session);
    self->wire_->Ready();
  });
}

bool Connection::Receiving(size_t bytes) {
  // Small messages are not charged, because the number of connections is limited.
  return receiving_.Resize(bytes <= kUncountedBytes ? 0 : bytes);
}

void Connection::Send(std::string response) {
  if (wire_ == nullptr) return;
  response_bytes_ += response.size();
  responses_.push_back(std::move(response));
  if (!responses_charge_.Resize(response_bytes_)) {
    wire_->Close("too many bytes wait for your clients to read them");
    response_bytes_ = 0;
    responses_.clear();
    responses_charge_.Release();
    return;
  }
  wire_->Ready();
}

void Connection::Respond(uint32_t corr_id, bool ok, std::string_view result) {
  if (wire_ == nullptr) return;
  Send(EncodeResponse(corr_id, ok, result));
}

void Connection::Respond(uint32_t corr_id, const Result<std::string>& result) {
  Respond(corr_id, result.has_value(), result ? *result : result.error().text);
}

void Connection::Defer(uint32_t corr_id, Job job, Then then) {
  if (!then) {
    then = [this, corr_id](const Result<std::string>& result) { Respond(corr_id, result); };
  }
  auto done = [self = shared_from_this(), then = std::move(then)](Result<std::string> result) {
    self->service_.post([self, then, result = std::move(result)] {
      --self->jobs_;
      then(result);
      if (self->wire_ != nullptr) self->wire_->Ready();
    });
  };
  if (!service_.Run(username_, std::move(job), std::move(done))) {
    return Respond(corr_id, false,
                   "too many installations and first launches are waiting; try again later");
  }
  ++jobs_;
}

void Connection::Attach(const std::shared_ptr<Session>& session) {
  attached_.insert(session);
  Enqueue(session);
  if (auto process = session->process()) process->ClientCame();
  if (wire_ != nullptr) wire_->Ready();
}

// The session may already be in the queue, such as if the client attaches twice.
void Connection::Enqueue(const std::shared_ptr<Session>& session) {
  if (queued_.insert(session.get()).second) ready_.push_back(session);
}

// Authentication.

Status Connection::Become(std::string username) {
  (void)service_.engine.users().Of(username);  // from the second user on, each has a share
  host::Charge place(service_.known.Of(username));
  if (!place.Grow(1)) {
    return Fail(Code::kExhausted,
                "the clients of this user hold all the connections that they may (of {} for all "
                "users); close some first",
                service_.limits.max_connections);
  }
  place_ = std::move(place);
  username_ = std::move(username);
  challenge_.clear();
  state_ = State::kKnown;
  uploads_.SetBudget(service_.uploads.Of(username_));
  receiving_ = host::Charge(service_.uploads.Of(username_));
  responses_charge_ = host::Charge(service_.sessions.BufferOf(username_));
  relay_->SetBudget(service_.sessions.BufferOf(username_));
  service_.log.Debug("client authenticated", {{"user", username_}, {"peer", peer_}});
  return {};
}

void Connection::Handle(const AuthIdentify& message) {
  if (state_ == State::kProving) {
    return Respond(message.corr_id, false, "a proof of this connection is being checked");
  }
  if (known()) return Respond(message.corr_id, false, "this connection is already authenticated");
  if (Status good = CheckUsername(message.username); !good) {
    return Respond(message.corr_id, false, good.error().text);
  }
  if (message.username == Auth::kInternalUser) {
    return Respond(message.corr_id, false, "the user name 'internal' is reserved");
  }
  if (!service_.auth.enabled()) {
    if (Status known = Become(std::string(message.username)); !known) {
      return Respond(message.corr_id, false, known.error().text);
    }
    return Respond(message.corr_id, true, "Authenticated (Engine disabled authentication)");
  }
  username_ = message.username;
  challenge_ = service_.auth.NewChallenge();
  state_ = State::kChallenged;
  Respond(message.corr_id, true, challenge_);
}

void Connection::Handle(const AuthProve& message) {
  if (state_ != State::kChallenged) {
    return Respond(message.corr_id, false,
                   "there is no challenge to sign: send auth_identify first");
  }
  // Checking a signature takes a while, and any stranger may ask for it.
  state_ = State::kProving;
  auto check = [self = shared_from_this(), corr_id = message.corr_id,
                challenge = std::exchange(challenge_, ""),  // it is valid for one attempt
                signature = std::string(message.signature)] {
    Status good = self->service_.auth.Verify(self->username_, challenge, signature);
    self->service_.post([self, corr_id, good = std::move(good)] { self->Proved(corr_id, good); });
  };
  if (!service_.logins.Push(Claimant(), std::move(check))) {
    Proved(message.corr_id, Fail(Code::kExhausted, "too many logins wait; try again later"));
  }
}

// The name by which clients take turns when proofs are checked. Any client can claim to be a user,
// so the name is the address. Clients of this machine share an address, so the claimed name is
// added.
std::string Connection::Claimant() const {
  const bool is_here = network_ == "127.0.0.1" || network_ == "::1";
  return is_here ? network_ + " " + username_ : network_;
}

void Connection::Proved(uint32_t corr_id, const Status& good) {
  state_ = State::kUnknown;
  if (wire_ == nullptr) return;
  if (!good) {
    service_.log.Limited("authentication failed", {{"user", username_}, {"peer", peer_}});
    return Respond(corr_id, false, good.error().text);
  }
  if (Status known = Become(username_); !known) {
    return Respond(corr_id, false, known.error().text);
  }
  Respond(corr_id, true, "Authenticated");
}

void Connection::Handle(const AuthByToken& message) {
  if (state_ == State::kProving) {
    return Respond(message.corr_id, false, "a proof of this connection is being checked");
  }
  if (known()) return Respond(message.corr_id, false, "this connection is already authenticated");
  const auto user = service_.auth.UserOfToken(message.token);
  if (!user) {
    service_.log.Limited("authentication failed", {{"token", true}, {"peer", peer_}});
    return Respond(message.corr_id, false, "authentication failed: wrong token");
  }
  if (Status known = Become(*user); !known) {
    return Respond(message.corr_id, false, known.error().text);
  }
  Respond(message.corr_id, true, "Authenticated");
}

}  // namespace pie::server
