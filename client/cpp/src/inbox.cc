#include "inbox.h"

#include "blake3.h"
#include "bounds.h"
#include "pie_client/errors.h"

namespace pie_client {
namespace {

constexpr size_t kEventOverhead = 128;

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
  throw ConnectionLost("the server sent an event of an unknown kind: '" + name + "'");
}

}  // namespace

std::exception_ptr IncomingFile::Add(uint64_t index, uint64_t the_total, std::string_view chunk) {
  if (index != next || the_total != total) {
    return Fault<IntegrityError>("received chunk " + std::to_string(index) +
                                 " of a file, expected " + std::to_string(next) + " of " +
                                 std::to_string(total));
  }
  if (data.size() + chunk.size() > kMaxIncomingBytes) {
    return Fault<IntegrityError>("the process sent a file over the limit of " +
                                 std::to_string(kMaxIncomingBytes >> 20) + " MiB");
  }
  data.append(chunk);
  if (++next == total && Blake3Hex(data) != hash) {
    return Fault<IntegrityError>("the received file of " + std::to_string(data.size()) +
                                 " bytes does not match its hash " + hash);
  }
  return nullptr;
}

std::shared_ptr<Mailbox> Inbox::Adopt(const std::string& id, std::optional<uint64_t> seen) {
  auto mailbox = std::make_shared<Mailbox>(id);
  mailbox->seen = seen;
  auto& place = mailboxes_[id];
  if (place) {
    place->fault =
        Fault<Error>("this client attached to process " + id + " again; use the newer Process");
    place->bell.Ring();
  }
  return place = std::move(mailbox);
}

void Inbox::Put(const Json& frame) {
  const auto found = mailboxes_.find(frame.at("process_id").get<std::string>());
  if (found == mailboxes_.end()) return;  // a process that this client is not attached to
  Mailbox& mailbox = *found->second;
  const bool numbered = frame.contains("seq") && frame["seq"].is_number_unsigned();
  const uint64_t number = numbered ? frame["seq"].get<uint64_t>() : 0;
  if (numbered && mailbox.seen && number <= *mailbox.seen) return;  // received before a break
  Event event;
  std::exception_ptr fault;
  if (frame["type"] == "file") {
    const auto index = frame.at("chunk_index").get<uint64_t>();
    const auto total = frame.at("total_chunks").get<uint64_t>();
    if (index == 0) mailbox.file = IncomingFile{frame.at("file_hash").get<std::string>(), total};
    if (!mailbox.file) return;  // the rest of a file that was refused
    fault = mailbox.file->Add(index, total, BytesOf(frame.at("chunk_data")));
    if (!fault && mailbox.file->next < total) return;
    if (!fault) event = {Event::Kind::kFile, std::move(mailbox.file->data)};
    mailbox.file.reset();
  } else {
    event = {KindOf(frame.at("event").get<std::string>()), frame.at("value").get<std::string>()};
  }
  const bool is_last = !fault && event.is_last();
  {
    std::lock_guard lock(mailbox.mutex);
    if (numbered) mailbox.seen = number;
    if (is_last) mailbox.end = event;
  }
  if (!mailbox.discards) {
    ++unread_events_;
    unread_bytes_ += event.value.size() + kEventOverhead;
    mailbox.events.emplace_back(std::move(event), fault);
  }
  mailbox.bell.Ring();
  if (unread_bytes_ > kMaxUnreadBytes) {
    throw ConnectionLost("too many events were not taken, the last of process " + mailbox.id +
                         ": call Recv() or Discard() of every process");
  }
  if (is_last) mailboxes_.erase(found);
}

asio::awaitable<Event> Inbox::Take(std::shared_ptr<Mailbox> mailbox, Limit limit) {
  const auto ended = [&] {
    return mailbox->last_taken || (mailbox->discards && mailbox->end.has_value());
  };
  const bool came = co_await Wait(mailbox->bell, limit, [&] {
    return !mailbox->events.empty() || ended() || mailbox->fault != nullptr;
  });
  if (!came) throw RequestTimeout("process " + mailbox->id + " sent no event in time");
  if (mailbox->events.empty()) {
    if (ended()) throw ProcessEnded("process " + mailbox->id + " has ended");
    std::rethrow_exception(mailbox->fault);
  }
  Event event = std::move(mailbox->events.front().first);
  const std::exception_ptr fault = mailbox->events.front().second;
  mailbox->events.pop_front();
  Uncount(event);
  if (unread_events_ <= kUnreadEvents / 2) read_on_.Ring();
  if (fault) std::rethrow_exception(fault);
  {
    std::lock_guard lock(mailbox->mutex);
    mailbox->last_taken = event.is_last();
  }
  if (mailbox->last_taken)
    mailbox->bell.Ring();  // wakes the other waiters, for whom no event will arrive
  co_return event;
}

void Inbox::Discard(Mailbox& mailbox) {
  mailbox.discards = true;
  for (const auto& [event, fault] : mailbox.events) Uncount(event);
  mailbox.events.clear();
  mailbox.bell.Ring();
  read_on_.Ring();
}

void Inbox::Break(const std::exception_ptr& fault) {
  for (const auto& [id, mailbox] : mailboxes_) {
    mailbox->fault = fault;
    mailbox->file.reset();
    mailbox->bell.Ring();
  }
}

void Inbox::Lose(Mailbox& mailbox, std::exception_ptr fault) {
  mailbox.fault = std::move(fault);
  mailbox.bell.Ring();
  mailboxes_.erase(mailbox.id);
}

std::vector<std::shared_ptr<Mailbox>> Inbox::mailboxes() const {
  std::vector<std::shared_ptr<Mailbox>> all;
  for (const auto& [id, mailbox] : mailboxes_) all.push_back(mailbox);
  return all;
}

bool Inbox::has_room() const {
  return waiters_ > 0 || (unread_events_ <= kUnreadEvents && unread_bytes_ <= kUnreadBytes);
}

void Inbox::Uncount(const Event& event) {
  --unread_events_;
  unread_bytes_ -= event.value.size() + kEventOverhead;
}

}  // namespace pie_client
