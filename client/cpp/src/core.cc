#include "core.h"

#include "base64.h"
#include "bounds.h"
#include "pie_client/errors.h"

namespace pie_client {
namespace {

constexpr int kAttempts = 5;
// A challenge with this prefix may be signed together with the hash of the server's certificate.
constexpr std::string_view kBinds = "PIE-BIND";

}  // namespace

// --- the connection

asio::awaitable<void> Core::ConnectHere() {
  if (!strand_) strand_ = asio::make_strand(co_await asio::this_coro::executor);
  co_await Here(Open());
  if (!options_.token && !options_.username) co_return;
  Login login;
  login.username = options_.username.value_or("");
  login.key = options_.key;
  login.token = options_.token;
  co_await Authenticate(std::move(login));
}

asio::awaitable<void> Core::Open() {
  const size_t closes = closes_;
  std::shared_ptr<Socket> socket;
  try {
    socket = co_await Socket::Connect(uri_, options_.ca_file);
    if (closes != closes_) throw ConnectionLost("this client was closed");
  } catch (const ConnectionLost&) {
    fault_ = std::current_exception();
    throw;
  }
  socket_ = std::move(socket);
  fault_ = nullptr;
  asio::co_spawn(*strand_, Keep(shared_from_this(), ReadLoop(socket_)), asio::detached);
  asio::co_spawn(*strand_, Keep(shared_from_this(), WriteLoop(socket_)), asio::detached);
}

asio::awaitable<void> Core::CloseHere() {
  ++closes_;
  const auto socket = std::exchange(socket_, nullptr);
  Fail("this client was closed");
  if (socket) co_await socket->Close();
}

asio::awaitable<void> Core::CloseAll() {
  co_await CloseHere();
  const McpServers servers = std::exchange(mcp_, {});
  for (const auto& [name, server] : servers) co_await server->Stop();
}

void Core::Leave() {
  if (strand_) asio::co_spawn(*strand_, Keep(shared_from_this(), CloseAll()), asio::detached);
}

asio::awaitable<void> Core::ReconnectHere() {
  co_await CloseHere();
  for (int attempt = 1; !socket_; ++attempt) {
    std::exception_ptr fault;
    try {
      co_await Open();
    } catch (const ConnectionLost&) {
      fault = std::current_exception();
    }
    if (!fault) break;
    if (attempt == kAttempts) std::rethrow_exception(fault);
    asio::steady_timer pause(*strand_, std::chrono::milliseconds(50 << attempt));
    co_await pause.async_wait(asio::use_awaitable);
  }
  if (login_) co_await Identify(*login_);
  const McpServers servers = mcp_;
  for (const auto& [name, server] : servers) co_await OfferMcp(name);
  for (const auto& mailbox : inbox_.mailboxes()) {
    Json fields = {{"process_id", mailbox->id}};
    if (mailbox->seen) fields["seen"] = *mailbox->seen;
    try {
      OnOk on_ok = [mailbox](const std::string&) { mailbox->fault = nullptr; };
      co_await AskHere("attach_process", std::move(fields), std::move(on_ok));
    } catch (const ServerError&) {
      inbox_.Lose(*mailbox, std::current_exception());
    }
  }
}

asio::awaitable<void> Core::LogIn(Login login) {
  co_await Identify(login);
  login_ = std::move(login);
}

asio::awaitable<void> Core::Identify(Login login) {
  try {
    if (login.token) {
      Json token = {{"token", *login.token}};
      co_await AskHere("auth_by_token", std::move(token));
      co_return;
    }
    Json name = {{"username", login.username}};
    auto challenge = FromBase64(co_await AskHere("auth_identify", std::move(name)));
    if (!challenge) co_return;  // the server requires no proof and sent plain text
    if (!login.key) {
      throw AuthError("the server requires a proof: pass the private key of " + login.username);
    }
    // Another server that passes the challenge on cannot use a proof that names the certificate.
    if (challenge->starts_with(kBinds) && socket_) *challenge += socket_->CertificateHash();
    Json proof = {{"signature", ToBase64(login.key->Sign(*challenge))}};
    co_await AskHere("auth_prove", std::move(proof));
  } catch (const AuthError&) {
    throw;
  } catch (const ServerError& error) {
    throw AuthError(error.what());
  }
}

// --- requests

// Registers a request in flight. The destructor removes it.
class Core::Request {
 public:
  Request(Core& core, OnOk on_ok) : core_(core) {
    if (core.fault_) std::rethrow_exception(core.fault_);
    pending->on_ok = std::move(on_ok);
    core.pending_[number] = pending;
  }
  ~Request() { core_.pending_.erase(number); }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

 private:
  Core& core_;

 public:
  const uint32_t number = ++core_.number_;
  const PendingPtr pending = std::make_shared<Pending>();
};

asio::awaitable<std::string> Core::AskHere(std::string type, Json fields, OnOk on_ok) {
  const Request request(*this, std::move(on_ok));
  fields["corr_id"] = request.number;
  Send(type, std::move(fields));
  co_return co_await Finish(request.pending, options_.timeout);
}

asio::awaitable<std::shared_ptr<Mailbox>> Core::ListenHere(std::string type, Json fields,
                                                           std::optional<uint64_t> seen) {
  std::shared_ptr<Mailbox> mailbox;
  const std::string known = fields.value("process_id", "");
  OnOk on_ok = [&](const std::string& answer) {
    mailbox = inbox_.Adopt(known.empty() ? answer : known, seen);
  };
  co_await AskHere(std::move(type), std::move(fields), std::move(on_ok));
  co_return mailbox;
}

asio::awaitable<void> Core::UploadHere(std::string type, Json fields, std::string data,
                                       Limit limit) {
  co_await inbox_.Wait(upload_over_, {}, [&] { return !uploading_; });
  uploading_ = true;
  std::exception_ptr fault;
  try {
    co_await UploadChunks(std::move(type), std::move(fields), std::move(data), limit);
  } catch (...) {
    fault = std::current_exception();
  }
  uploading_ = false;
  upload_over_.Ring();
  if (fault) std::rethrow_exception(fault);
}

asio::awaitable<void> Core::UploadChunks(std::string type, Json fields, std::string data,
                                         Limit limit) {
  const Request request(*this, nullptr);
  const size_t total = std::max<size_t>(1, (data.size() + kChunkBytes - 1) / kChunkBytes);
  fields["corr_id"] = request.number;
  fields["total_chunks"] = total;
  const auto& pending = request.pending;
  // A response before the last chunk is a refusal.
  for (size_t index = 0; index < total && !pending->done; ++index) {
    const auto chunk = std::string_view(data).substr(index * kChunkBytes, kChunkBytes);
    fields["chunk_index"] = index;
    fields["chunk_data"] = Json::binary(std::vector<uint8_t>(chunk.begin(), chunk.end()));
    Send(type, fields);
    co_await inbox_.Wait(written_, {}, [&] { return pending->done || writes_.empty(); });
  }
  co_await Finish(pending, limit);
}

// --- MCP servers

asio::awaitable<void> Core::RegisterMcpHere(std::string name, std::vector<std::string> command) {
  const auto server = std::make_shared<McpServer>(name, std::move(command));
  co_await server->Start();
  const auto before = std::exchange(mcp_[name], server);
  if (before) co_await before->Stop();
  co_await OfferMcp(std::move(name));
}

asio::awaitable<void> Core::OfferMcp(std::string name) {
  Json fields = {{"name", std::move(name)}, {"transport", "stdio"}};
  co_await AskHere("register_mcp_server", std::move(fields));
}

asio::awaitable<void> Core::ServeMcp(Json frame) {
  auto [ok, result] = co_await RelayMcp(mcp_, frame);
  if (result.size() > kMaxFrameBytes / 2) {
    result = "the result has " + std::to_string(result.size()) + " bytes, which is too long";
    ok = false;
  }
  if (fault_) co_return;  // no call waits any more
  Json fields = {{"corr_id", frame.at("corr_id")}, {"ok", ok}, {"result", std::move(result)}};
  Send("mcp_response", std::move(fields));
}

asio::awaitable<std::string> Core::Finish(PendingPtr pending, Limit limit) {
  const bool came = co_await inbox_.Wait(pending->bell, limit, [&] { return pending->done; });
  if (!came) throw RequestTimeout("the server did not answer in time");
  if (pending->fault) std::rethrow_exception(pending->fault);
  co_return std::move(pending->result);
}

void Core::Discard(std::shared_ptr<Mailbox> mailbox) {
  asio::post(*strand_, [self = shared_from_this(), mailbox = std::move(mailbox)] {
    self->inbox_.Discard(*mailbox);
  });
}

// --- frames

void Core::Send(const std::string& type, Json fields) {
  fields["type"] = type;
  std::string frame;
  Json::to_msgpack(fields, frame);
  if (frame.size() > kMaxFrameBytes) {
    throw TooLarge(type + ": " + std::to_string(frame.size()) +
                   " bytes in one message, but the server accepts at most " +
                   std::to_string(kMaxFrameBytes) + "; send large data as a file");
  }
  if (fault_) std::rethrow_exception(fault_);
  writes_.push_back(std::move(frame));
  to_write_.Ring();
}

asio::awaitable<void> Core::WriteLoop(std::shared_ptr<Socket> socket) {
  std::string why;
  try {
    while (socket == socket_) {
      if (writes_.empty()) {
        written_.Ring();
        co_await to_write_.Wait({}, [&] { return socket != socket_ || !writes_.empty(); });
        continue;
      }
      const std::string frame = std::move(writes_.front());
      writes_.pop_front();
      co_await socket->Write(frame);
    }
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (socket == socket_) Fail(why);
}

asio::awaitable<void> Core::ReadLoop(std::shared_ptr<Socket> socket) {
  std::string why;
  try {
    while (true) {
      const std::string_view frame = co_await socket->Read();
      if (socket != socket_) continue;  // closed; the close frame is still to be read
      OnFrame(frame);
      co_await inbox_.read_on().Wait({}, [&] { return socket != socket_ || inbox_.has_room(); });
    }
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (socket == socket_) Fail(why);
}

void Core::OnFrame(std::string_view data) {
  const Json frame = Json::from_msgpack(data, true, false);
  if (frame.is_discarded() || !frame.is_object()) {
    throw ConnectionLost("the server sent an invalid message");
  }
  const auto& type = frame.at("type").get_ref<const std::string&>();
  if (type == "response") {
    OnResponse(frame);
  } else if (type == "process_event" || type == "file") {
    inbox_.Put(frame);
  } else if (type == "mcp_request") {
    asio::co_spawn(*strand_, Keep(shared_from_this(), ServeMcp(frame)), asio::detached);
  }
}

void Core::OnResponse(const Json& frame) {
  const auto found = pending_.find(frame.at("corr_id").get<uint32_t>());
  if (found == pending_.end() || found->second->done) return;  // no call waits for it any more
  const PendingPtr pending = found->second;
  pending->result = frame.at("result").get<std::string>();
  if (!frame.at("ok").get<bool>()) {
    pending->fault = Fault<ServerError>(pending->result);
  } else if (pending->on_ok) {
    pending->on_ok(pending->result);
  }
  pending->done = true;
  pending->bell.Ring();
}

void Core::Fail(const std::string& text) {
  if (const auto socket = std::exchange(socket_, nullptr)) socket->Abort();
  if (fault_) return;
  fault_ = Fault<ConnectionLost>(text);
  writes_.clear();
  for (const auto& [number, pending] : pending_) {
    if (!pending->done) pending->fault = fault_;
    pending->done = true;
    pending->bell.Ring();
  }
  inbox_.Break(fault_);
  to_write_.Ring();
  written_.Ring();
  inbox_.read_on().Ring();
}

}  // namespace pie_client
