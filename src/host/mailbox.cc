#include "host/mailbox.h"

#include <algorithm>

namespace pie::host {
namespace {

constexpr size_t kMessageBytes = 128;  // memory of a message besides its text

}  // namespace

Letter::~Letter() {
  // No lock is needed, because no other thread holds this letter any more.
  if (message_) box_->PutBack(*std::move(message_));
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
  Served served;
  std::lock_guard lock(mutex_);
  if (closed_) return Fail(Code::kCancelled, "nobody will read this message: the reader has ended");
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
  Deliver(served);
  return {};
}

void Mailbox::PutBack(Message message) {
  Served served;
  std::lock_guard lock(mutex_);
  messages_.push_front(std::move(message));
  Deliver(served);
}

std::shared_ptr<Letter> Mailbox::Receive() {
  auto letter = std::make_shared<Letter>(shared_from_this());
  Served served;
  std::lock_guard lock(mutex_);
  DropExpired();
  waiting_.push_back(letter);
  Deliver(served);
  if (!waiting_.empty() && (closed_ || interrupted_)) {
    letter->signal_.Fire();
    waiting_.clear();
    interrupted_ = false;
  }
  return letter;
}

void Mailbox::Forget(size_t bytes) {
  --kept_;
  bytes_ -= bytes;
}

// Letters that were dropped before they received a message are still in the queue of letters. The
// search for them is slow, so it runs only when the queue has doubled.
void Mailbox::DropExpired() {
  if (waiting_.size() < drop_expired_at_) return;
  std::erase_if(waiting_, [](const auto& letter) { return letter.expired(); });
  drop_expired_at_ = std::max<size_t>(64, waiting_.size() * 2);
}

void Mailbox::Close() {
  Served told;
  std::lock_guard lock(mutex_);
  closed_ = true;
  TellWaiting(told);
}

void Mailbox::Interrupt() {
  Served told;
  std::lock_guard lock(mutex_);
  TellWaiting(told);
  interrupted_ = told.empty();
}

void Mailbox::Resume() {
  std::lock_guard lock(mutex_);
  interrupted_ = false;
}

void Mailbox::TellWaiting(Served& told) {
  for (auto& waiting : waiting_) {
    if (auto letter = waiting.lock()) {
      letter->signal_.Fire();
      told.push_back(std::move(letter));
    }
  }
  waiting_.clear();
}

bool Mailbox::idle() const {
  std::lock_guard lock(mutex_);
  return kept_ == 0 && std::ranges::all_of(waiting_, &std::weak_ptr<Letter>::expired);
}

bool Mailbox::awaited() const {
  std::lock_guard lock(mutex_);
  return !std::ranges::all_of(waiting_, &std::weak_ptr<Letter>::expired);
}

void Mailbox::Deliver(Served& served) {
  while (!messages_.empty() && !waiting_.empty()) {
    auto letter = waiting_.front().lock();
    waiting_.pop_front();
    if (!letter) continue;
    letter->message_ = std::move(messages_.front());
    messages_.pop_front();
    letter->signal_.Fire();
    served.push_back(std::move(letter));
  }
}

}  // namespace pie::host
