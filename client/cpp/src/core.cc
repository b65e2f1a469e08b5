#include "core.h"

#include "blake3.h"
#include "bounds.h"
#include "pie_client/errors.h"

namespace pie_client {
namespace {

constexpr size_t kEventOverhead = 128;

template <class E>
std::exception_ptr Fault(const std::string& text) {
  return std::make_exception_ptr(E(text));
}

std::string_view BytesOf(const Json& binary) {
  const auto& bytes = binary.get_binary();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Event::Kind KindOf(const std::string& name) {
  if (name == "stdout") return Event::Kind::kStdout;
  if (name == "stderr") return Event::Kind::kStderr;
  if (name == "message") return Event::Kind::kMessage;
  if (name == "return") return Event::Kind::kReturn;
  if (name == "error") return Event::Kind::kError;
  throw ConnectionLost("the server sent an event of the kind '" + name + "'");
}

}  // namespace

std::exception_ptr IncomingFile::Add(uint64_t index, uint64_t the_total, std::string_view chunk) {
  if (index != next || the_total != total) {
    return Fault<IntegrityError>("chunk " + std::to_string(index) + " of a file came where " +
                                 std::to_string(next) + " of " + std::to_string(total) +
                                 " was due");
  }
  if (data.size() + chunk.size() > kMaxIncomingBytes) {
    return Fault<IntegrityError>("a file came that is larger than this client takes");
  }
  data.append(chunk);
  if (++next == total && Blake3Hex(data) != hash) {
    return Fault<IntegrityError>("a file of " + std::to_string(data.size()) +
                                 " bytes came that does not have its hash " + hash);
  }
  return nullptr;
}

Core::~Core() {
  socket_.reset();  // before what its handlers use
}

void Core::Open() {
  Socket::Handlers handlers{
      .on_frame = [this](std::string_view data) { return OnFrame(data); },
      .on_closed = [this](const std::string& text) { Fail(text); },
  };
  {
    std::lock_guard lock(mutex_);
    fault_ = nullptr;
    paused_ = false;
  }
  std::shared_ptr<Socket> socket;
  try {
    socket = Socket::Open(uri_, ca_file_, std::move(handlers));
  } catch (const ConnectionLost& error) {
    Fail(error.what());
    throw;
  }
  std::lock_guard lock(mutex_);
  socket_ = std::move(socket);
}

void Core::Close() {
  std::shared_ptr<Socket> socket;
  {
    std::lock_guard lock(mutex_);
    FailLocked("this client was closed");
    socket = std::exchange(socket_, nullptr);
  }
  if (socket) socket->Close();
}

// --- requests

std::pair<uint32_t, std::shared_ptr<Core::Pending>> Core::Begin(const OnOk& on_ok) {
  std::lock_guard lock(mutex_);
  if (fault_) std::rethrow_exception(fault_);
  const uint32_t number = ++number_;
  auto pending = std::make_shared<Pending>(on_ok);
  pending_[number] = pending;
  return {number, pending};
}

void Core::Send(std::string_view type, Json fields) {
  fields["type"] = type;
  std::string frame;
  Json::to_msgpack(fields, frame);
  if (frame.size() > kMaxFrameBytes) {
    throw TooLarge(std::string(type) + ": " + std::to_string(frame.size()) +
                   " bytes in one message; the server takes " + std::to_string(kMaxFrameBytes) +
                   ". Send what is large as a file");
  }
  std::shared_ptr<Socket> socket;
  {
    std::lock_guard lock(mutex_);
    if (fault_) std::rethrow_exception(fault_);
    if (!socket_) throw ConnectionLost("not connected");
    socket = socket_;
  }
  socket->Send(std::move(frame));
}

std::string Core::Finish(uint32_t number, const std::shared_ptr<Pending>& pending, Limit limit) {
  Lock lock(mutex_);
  const bool came = Wait(lock, limit, [&] { return pending->done; });
  pending_.erase(number);
  if (!came) throw RequestTimeout("the server did not answer in time");
  if (pending->fault) std::rethrow_exception(pending->fault);
  return std::move(pending->result);
}

std::string Core::Ask(std::string_view type, Json fields, const OnOk& on_ok) {
  const auto [number, pending] = Begin(on_ok);
  fields["corr_id"] = number;
  try {
    Send(type, std::move(fields));
  } catch (...) {
    std::lock_guard lock(mutex_);
    pending_.erase(number);
    throw;
  }
  return Finish(number, pending, timeout_);
}

void Core::Upload(std::string_view type, Json fields, std::string_view data,
                  std::chrono::milliseconds limit) {
  std::lock_guard one(uploading_);
  const auto [number, pending] = Begin({});
  const size_t total = std::max<size_t>(1, (data.size() + kChunkBytes - 1) / kChunkBytes);
  fields["corr_id"] = number;
  fields["total_chunks"] = total;
  for (size_t index = 0; index < total; ++index) {
    // Refused; the rest would be passed over.
    if (Locked([&] { return pending->done; })) break;
    const std::string_view chunk = data.substr(index * kChunkBytes, kChunkBytes);
    fields["chunk_index"] = index;
    fields["chunk_data"] = Json::binary(std::vector<uint8_t>(chunk.begin(), chunk.end()));
    Send(type, fields);
  }
  Finish(number, pending, limit);
}

// --- events

std::shared_ptr<Mailbox> Core::Adopt(const std::string& id, std::optional<uint64_t> seen) {
  auto mailbox = std::make_shared<Mailbox>(Mailbox{.id = id, .seen = seen});
  auto& place = mailboxes_[id];
  if (place) {
    place->fault = Fault<Error>("process " + id + " was attached once more by this client");
    changed_.notify_all();
  }
  return place = std::move(mailbox);
}

Event Core::Take(Mailbox& mailbox, Limit limit) {
  Lock lock(mutex_);
  const auto ended = [&] {
    return mailbox.last_taken || (mailbox.discards && mailbox.end.has_value());
  };
  const bool came = Wait(
      lock, limit, [&] { return !mailbox.events.empty() || ended() || mailbox.fault != nullptr; });
  if (!came) throw RequestTimeout("process " + mailbox.id + " said nothing in time");
  if (mailbox.events.empty()) {
    if (ended()) throw ProcessEnded("process " + mailbox.id + " has ended");
    std::rethrow_exception(mailbox.fault);
  }
  auto [event, fault] = std::move(mailbox.events.front());
  mailbox.events.pop_front();
  --unread_events_;
  unread_bytes_ -= event.value.size() + kEventOverhead;
  if (unread_events_ <= kUnreadEvents / 2) ReadOn(lock);
  if (fault) std::rethrow_exception(fault);
  mailbox.last_taken = event.is_last();
  return std::move(event);
}

void Core::Discard(Mailbox& mailbox) {
  Lock lock(mutex_);
  mailbox.discards = true;
  for (const auto& [event, fault] : mailbox.events) {
    --unread_events_;
    unread_bytes_ -= event.value.size() + kEventOverhead;
  }
  mailbox.events.clear();
  ReadOn(lock);
}

void Core::Lose(Mailbox& mailbox, std::exception_ptr fault) {
  std::lock_guard lock(mutex_);
  mailbox.fault = std::move(fault);
  changed_.notify_all();
}

std::vector<std::shared_ptr<Mailbox>> Core::mailboxes() {
  std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Mailbox>> all;
  for (const auto& [id, mailbox] : mailboxes_) all.push_back(mailbox);
  return all;
}

void Core::Forget(const std::string& id) {
  std::lock_guard lock(mutex_);
  mailboxes_.erase(id);
}

// --- waiting and reading

template <class Ready>
bool Core::Wait(Lock& lock, Limit limit, Ready ready) {
  if (ready()) return true;
  ++waiters_;
  ReadOn(lock);
  bool came = true;
  if (limit) {
    came = changed_.wait_for(lock, *limit, ready);
  } else {
    changed_.wait(lock, ready);
  }
  --waiters_;
  return came;
}

bool Core::Reads() const {
  return waiters_ > 0 || (unread_events_ <= kUnreadEvents && unread_bytes_ <= kUnreadBytes);
}

void Core::ReadOn(Lock&) {
  if (paused_ && Reads() && socket_) {
    paused_ = false;
    socket_->Resume();  // only posts
  }
}

bool Core::OnFrame(std::string_view data) {
  std::lock_guard lock(mutex_);
  if (fault_) return true;  // reads to the end
  const Json frame = Json::from_msgpack(data, true, false);
  try {
    if (frame.is_discarded() || !frame.is_object()) {
      throw ConnectionLost("the server sent what is no message");
    }
    const auto& type = frame.at("type").get_ref<const std::string&>();
    if (type == "response") {
      OnResponse(frame);
    } else if (type == "process_event" || type == "file") {
      OnSaid(frame);
    }
  } catch (const std::exception& error) {
    FailLocked(error.what());
    return true;
  }
  paused_ = !Reads();
  return !paused_;
}

void Core::OnResponse(const Json& frame) {
  const auto found = pending_.find(frame.at("corr_id").get<uint32_t>());
  if (found == pending_.end()) return;  // nobody waits any more
  Pending& pending = *found->second;
  pending.result = frame.at("result").get<std::string>();
  if (!frame.at("ok").get<bool>()) {
    pending.fault = Fault<ServerError>(pending.result);
  } else if (pending.on_ok) {
    pending.on_ok(pending.result);
  }
  pending.done = true;
  pending_.erase(found);
  changed_.notify_all();
}

void Core::OnSaid(const Json& frame) {
  const auto found = mailboxes_.find(frame.at("process_id").get<std::string>());
  if (found == mailboxes_.end()) return;  // of one that this client does not listen to
  Mailbox& mailbox = *found->second;
  const bool numbered = frame.contains("seq") && frame["seq"].is_number_unsigned();
  const uint64_t number = numbered ? frame["seq"].get<uint64_t>() : 0;
  if (numbered && mailbox.seen && number <= *mailbox.seen) return;  // had it already
  Event event;
  std::exception_ptr fault;
  if (frame["type"] == "file") {
    const auto index = frame.at("chunk_index").get<uint64_t>();
    const auto total = frame.at("total_chunks").get<uint64_t>();
    if (index == 0) mailbox.file = IncomingFile{frame.at("file_hash").get<std::string>(), total};
    if (!mailbox.file) return;  // the rest of one that was refused
    fault = mailbox.file->Add(index, total, BytesOf(frame.at("chunk_data")));
    if (!fault && mailbox.file->next < total) return;
    if (!fault) event = {Event::Kind::kFile, std::move(mailbox.file->data)};
    mailbox.file.reset();
  } else {
    event = {KindOf(frame.at("event").get<std::string>()), frame.at("value").get<std::string>()};
  }
  if (numbered) mailbox.seen = number;
  const bool is_last = !fault && event.is_last();
  if (is_last) mailbox.end = event;
  if (!mailbox.discards) {
    ++unread_events_;
    unread_bytes_ += event.value.size() + kEventOverhead;
    mailbox.events.emplace_back(std::move(event), fault);
  }
  changed_.notify_all();
  if (unread_bytes_ > kMaxUnreadBytes) {
    throw ConnectionLost("too many events were not taken, the last of process " + mailbox.id +
                         ": call Recv() or Discard() of every process");
  }
  if (is_last) mailboxes_.erase(found);
}

void Core::Fail(const std::string& text) {
  std::lock_guard lock(mutex_);
  FailLocked(text);
}

void Core::FailLocked(const std::string& text) {
  if (fault_) return;
  fault_ = Fault<ConnectionLost>(text);
  for (const auto& [number, pending] : pending_) {
    pending->fault = fault_;
    pending->done = true;
  }
  pending_.clear();
  for (const auto& [id, mailbox] : mailboxes_) {
    mailbox->fault = fault_;
    mailbox->file.reset();
  }
  changed_.notify_all();
}

}  // namespace pie_client
