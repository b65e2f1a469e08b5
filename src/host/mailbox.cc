#include "host/mailbox.h"

namespace pie::host {

Letter::~Letter() {
  // No lock: nobody else holds this letter any more.
  if (message_) box_->PutBack(*std::move(message_));
}

std::optional<std::string> Letter::Take() {
  std::lock_guard lock(box_->mutex_);
  return std::exchange(message_, std::nullopt);
}

Status Mailbox::Push(std::string message) {
  Served served;
  std::lock_guard lock(mutex_);
  if (closed_) return Fail(Code::kCancelled, "nobody will read this message: the reader has ended");
  if (messages_.size() >= max_messages_ || bytes_ + message.size() > max_bytes_) {
    return Fail(Code::kExhausted, "the queue is full: {} messages, {} KiB wait to be read",
                messages_.size(), bytes_ >> 10);
  }
  bytes_ += message.size();
  messages_.push_back(std::move(message));
  Deliver(served);
  return {};
}

void Mailbox::PutBack(std::string message) {
  Served served;
  std::lock_guard lock(mutex_);
  bytes_ += message.size();
  messages_.push_front(std::move(message));
  Deliver(served);
}

std::shared_ptr<Letter> Mailbox::Receive() {
  auto letter = std::make_shared<Letter>(shared_from_this());
  Served served;
  std::lock_guard lock(mutex_);
  waiting_.push_back(letter);
  Deliver(served);
  if (closed_) letter->signal_.Fire();
  return letter;
}

void Mailbox::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (auto& waiting : waiting_) {
    if (auto letter = waiting.lock()) letter->signal_.Fire();
  }
  waiting_.clear();
}

bool Mailbox::idle() const {
  std::lock_guard lock(mutex_);
  if (!messages_.empty()) return false;
  for (const auto& waiting : waiting_) {
    if (!waiting.expired()) return false;
  }
  return true;
}

void Mailbox::Deliver(Served& served) {
  while (!messages_.empty() && !waiting_.empty()) {
    auto letter = waiting_.front().lock();
    waiting_.pop_front();
    if (!letter) continue;
    bytes_ -= messages_.front().size();
    letter->message_ = std::move(messages_.front());
    messages_.pop_front();
    letter->signal_.Fire();
    served.push_back(std::move(letter));
  }
}

}  // namespace pie::host
