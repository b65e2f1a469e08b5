#include "pie_client/process.h"

#include "blake3.h"
#include "core.h"
#include "pie_client/errors.h"

namespace pie_client {

Process::Process(std::shared_ptr<Core> core, std::shared_ptr<Mailbox> mailbox)
    : core_(std::move(core)), mailbox_(std::move(mailbox)) {}

Process::~Process() {
  if (mailbox_) core_->Discard(*mailbox_);
}

const std::string& Process::id() const {
  return mailbox_->id;
}

Event Process::Recv(std::optional<std::chrono::milliseconds> limit) {
  return core_->Take(*mailbox_, limit);
}

std::optional<Event> Process::Next() {
  if (core_->Locked([&] { return mailbox_->last_taken; })) return std::nullopt;
  return Recv();
}

std::optional<std::string> Process::NextText() {
  while (auto event = Next()) {
    if (event->kind == Event::Kind::kStdout) return std::move(event->value);
    if (event->kind == Event::Kind::kError) throw ProcessError(event->value);
  }
  return std::nullopt;
}

std::string Process::Text() {
  std::string whole;
  while (auto part = NextText()) whole += *part;
  return whole;
}

std::string Process::Result() {
  while (NextText()) {
  }
  return return_value().value_or("");
}

std::optional<std::string> Process::return_value() const {
  return core_->Locked([&]() -> std::optional<std::string> {
    if (!mailbox_->end || mailbox_->end->kind != Event::Kind::kReturn) return std::nullopt;
    return mailbox_->end->value;
  });
}

bool Process::ended() const {
  return core_->Locked([&] { return mailbox_->end.has_value(); });
}

std::optional<uint64_t> Process::seen() const {
  return core_->Locked([&] { return mailbox_->seen; });
}

void Process::Discard() {
  core_->Discard(*mailbox_);
}

void Process::Signal(std::string_view message) {
  core_->Ask("signal_process", {{"process_id", id()}, {"message", message}});
}

void Process::TransferFile(std::string_view bytes) {
  core_->Upload("transfer_file", {{"process_id", id()}, {"file_hash", Blake3Hex(bytes)}}, bytes,
                core_->timeout());
}

void Process::Terminate() {
  core_->Ask("terminate_process", {{"process_id", id()}});
}

}  // namespace pie_client
