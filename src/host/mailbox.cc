#include "host/mailbox.h"

#include <utility>

namespace pie::host {
namespace {

constexpr size_t kMessageBytes = 128;  // memory of a message besides its text

}  // namespace

Letter::~Letter() {
  // The box may be about to serve this letter.
  std::lock_guard lock(box_->mutex_);
  if (place_) box_->waiting_.erase(*place_);
  if (!message_) return;
  box_->messages_.push_front(*std::move(message_));
  box_->Deliver();
}

std::optional<std::string> Letter::Take() {
  std::lock_guard lock(box_->mutex_);
  if (!message_) return std::nullopt;
  std::string text = std::move(message_->text);
  message_.reset();
  box_->Forget(text.size());
  return text;
}

Status Mailbox::Push(std::string text, Charge charge) {
  std::lock_guard lock(mutex_);
  if (closed_)
    return Fail(Code::kCancelled, "the message cannot be delivered: its reader has ended");
  if (kept_ >= max_messages_ || bytes_ + text.size() > max_bytes_) {
    return Fail(Code::kExhausted, "the queue is full: {} messages, {} KiB wait to be read", kept_,
                bytes_ >> 10);
  }
  if (!charge.Grow(kMessageBytes + text.size())) {
    return Fail(Code::kExhausted,
                "the queue is full: {} MiB of your messages wait to be read in all topics",
                charge.budget()->used() >> 20);
  }
  ++kept_;
  bytes_ += text.size();
  messages_.push_back({std::move(text), std::move(charge)});
  Deliver();
  return {};
}

std::shared_ptr<Letter> Mailbox::Receive() {
  auto letter = std::make_shared<Letter>(shared_from_this());
  std::lock_guard lock(mutex_);
  letter->place_ = waiting_.insert(waiting_.end(), letter.get());
  Deliver();
  if (!waiting_.empty() && (closed_ || interrupted_)) {
    TellWaiting();
    interrupted_ = false;
  }
  return letter;
}

void Mailbox::Forget(size_t bytes) {
  --kept_;
  bytes_ -= bytes;
}

void Mailbox::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  TellWaiting();
}

void Mailbox::Interrupt() {
  std::lock_guard lock(mutex_);
  interrupted_ = waiting_.empty();
  TellWaiting();
}

void Mailbox::Resume() {
  std::lock_guard lock(mutex_);
  interrupted_ = false;
}

void Mailbox::TellWaiting() {
  for (Letter* letter : waiting_) {
    letter->place_.reset();
    letter->signal_.Fire();
  }
  waiting_.clear();
}

bool Mailbox::idle() const {
  std::lock_guard lock(mutex_);
  return kept_ == 0 && waiting_.empty();
}

bool Mailbox::awaited() const {
  std::lock_guard lock(mutex_);
  return !waiting_.empty();
}

// A letter that is being destroyed waits for the mutex: it puts its message back.
void Mailbox::Deliver() {
  while (!messages_.empty() && !waiting_.empty()) {
    Letter* const letter = waiting_.front();
    waiting_.pop_front();
    letter->place_.reset();
    letter->message_ = std::move(messages_.front());
    messages_.pop_front();
    letter->signal_.Fire();
  }
}

}  // namespace pie::host
