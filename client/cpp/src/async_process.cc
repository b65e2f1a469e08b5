#include "blake3.h"
#include "core.h"
#include "pie_client/async.h"

namespace pie_client::async {
namespace {

using CorePtr = std::shared_ptr<Core>;
using MailboxPtr = std::shared_ptr<Mailbox>;

bool LastTaken(const Mailbox& mailbox) {
  return mailbox.Locked([](const Mailbox& m) { return m.last_taken; });
}

std::optional<std::string> ReturnValue(const Mailbox& mailbox) {
  return mailbox.Locked([](const Mailbox& m) -> std::optional<std::string> {
    if (!m.end || m.end->kind != Event::Kind::kReturn) return std::nullopt;
    return m.end->value;
  });
}

// These coroutines hold the core and the mailbox and not the Process, which may be moved.

asio::awaitable<std::optional<Event>> NextOf(CorePtr core, MailboxPtr mailbox) {
  if (LastTaken(*mailbox)) co_return std::nullopt;
  co_return co_await core->Take(mailbox, std::nullopt);
}

asio::awaitable<std::optional<std::string>> NextTextOf(CorePtr core, MailboxPtr mailbox) {
  while (auto event = co_await NextOf(core, mailbox)) {
    if (event->kind == Event::Kind::kStdout) co_return std::move(event->value);
    if (event->kind == Event::Kind::kError) throw ProcessError(event->value);
  }
  co_return std::nullopt;
}

asio::awaitable<std::string> TextOf(CorePtr core, MailboxPtr mailbox) {
  std::string whole;
  while (auto part = co_await NextTextOf(core, mailbox)) whole += *part;
  co_return whole;
}

asio::awaitable<std::string> ResultOf(CorePtr core, MailboxPtr mailbox) {
  // g++ 12 miscompiles a bare co_await in this place.
  while (const auto passed_over = co_await NextTextOf(core, mailbox)) continue;
  co_return ReturnValue(*mailbox).value_or("");
}

}  // namespace

Process::Process(std::shared_ptr<Core> core, std::shared_ptr<Mailbox> mailbox)
    : core_(std::move(core)), mailbox_(std::move(mailbox)) {}

Process::~Process() {
  if (mailbox_) Discard();
}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(mailbox_, other.mailbox_);
  return *this;
}

asio::awaitable<Process> Process::Listen(std::shared_ptr<Core> core, std::string_view type,
                                         Json fields, std::optional<uint64_t> seen) {
  auto listening = core->Listen(type, std::move(fields), seen);
  MailboxPtr mailbox = co_await std::move(listening);
  co_return Process(std::move(core), std::move(mailbox));
}

const std::string& Process::id() const {
  return mailbox_->id;
}

asio::awaitable<Event> Process::Recv(std::optional<std::chrono::milliseconds> limit) {
  return core_->Take(mailbox_, limit);
}

asio::awaitable<std::optional<Event>> Process::Next() {
  return NextOf(core_, mailbox_);
}

asio::awaitable<std::optional<std::string>> Process::NextText() {
  return NextTextOf(core_, mailbox_);
}

asio::awaitable<std::string> Process::Text() {
  return TextOf(core_, mailbox_);
}

asio::awaitable<std::string> Process::Result() {
  return ResultOf(core_, mailbox_);
}

std::optional<std::string> Process::return_value() const {
  return ReturnValue(*mailbox_);
}

bool Process::ended() const {
  return mailbox_->Locked([](const Mailbox& m) { return m.end.has_value(); });
}

std::optional<uint64_t> Process::seen() const {
  return mailbox_->Locked([](const Mailbox& m) { return m.seen; });
}

void Process::Discard() {
  core_->Discard(mailbox_);
}

asio::awaitable<void> Process::Signal(std::string_view message) {
  return core_->Do("signal_process", {{"process_id", id()}, {"message", message}});
}

asio::awaitable<void> Process::TransferFile(std::string bytes) {
  Json fields = {{"process_id", id()}, {"file_hash", Blake3Hex(bytes)}};
  return core_->Upload("transfer_file", std::move(fields), std::move(bytes));
}

asio::awaitable<void> Process::Terminate() {
  return core_->Do("terminate_process", {{"process_id", id()}});
}

}  // namespace pie_client::async
