#include "host/hub.h"

#include <algorithm>

namespace pie::host {

void Subscription::Offer(const std::string& message) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  messages_.push_back(message);
  bytes_ += message.size();
  while (messages_.size() > limits_.max_queued_messages || bytes_ > limits_.max_queued_bytes) {
    bytes_ -= messages_.front().size();
    messages_.pop_front();
  }
  signal_.Fire();
}

std::optional<std::string> Subscription::Take() {
  std::lock_guard lock(mutex_);
  if (messages_.empty()) return std::nullopt;
  std::string message = std::move(messages_.front());
  messages_.pop_front();
  bytes_ -= message.size();
  if (messages_.empty() && !closed_) signal_.Clear();
  return message;
}

void Subscription::Close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  signal_.Fire();
}

bool Subscription::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

bool Hub::Topic::idle() const {
  if (queue && !queue->idle()) return false;
  return std::ranges::all_of(subscribers, [](const auto& s) { return s.expired(); });
}

Status Hub::Push(std::string_view user, std::string_view topic, std::string message) {
  std::lock_guard lock(mutex_);
  Topic* found = PIE_TRY(Find(user, topic));
  if (!found->queue) {
    found->queue = std::make_shared<Mailbox>(limits_.max_queued_messages, limits_.max_queued_bytes);
  }
  return found->queue->Push(std::move(message));
}

Result<std::shared_ptr<Letter>> Hub::Pull(std::string_view user, std::string_view topic) {
  std::lock_guard lock(mutex_);
  Topic* found = PIE_TRY(Find(user, topic));
  if (!found->queue) {
    found->queue = std::make_shared<Mailbox>(limits_.max_queued_messages, limits_.max_queued_bytes);
  }
  return found->queue->Receive();
}

void Hub::Broadcast(std::string_view user, std::string_view topic, const std::string& message) {
  std::lock_guard lock(mutex_);
  auto found = topics_.find(Key(user, topic));
  if (found == topics_.end()) return;
  std::erase_if(found->second.subscribers, [&](const auto& weak) {
    auto subscription = weak.lock();
    if (!subscription || subscription->closed()) return true;
    subscription->Offer(message);
    return false;
  });
}

Result<std::shared_ptr<Subscription>> Hub::Subscribe(std::string_view user,
                                                     std::string_view topic) {
  std::lock_guard lock(mutex_);
  Topic* found = PIE_TRY(Find(user, topic));
  auto subscription = std::make_shared<Subscription>(limits_);
  found->subscribers.push_back(subscription);
  return subscription;
}

size_t Hub::topics() {
  std::lock_guard lock(mutex_);
  Prune();
  return topics_.size();
}

Result<Hub::Topic*> Hub::Find(std::string_view user, std::string_view topic) {
  // Topics vanish when nobody uses them; looking for those costs, so only when their number has
  // doubled.
  if (topics_.size() >= prune_at_) {
    Prune();
    prune_at_ = std::max<size_t>(256, topics_.size() * 2);
  }
  Key key(user, topic);
  if (topics_.size() >= limits_.max_topics && !topics_.contains(key)) {
    return Fail(Code::kExhausted, "messaging: {} topics are in use", topics_.size());
  }
  return &topics_[key];
}

void Hub::Prune() {
  std::erase_if(topics_, [](const auto& entry) { return entry.second.idle(); });
}

}  // namespace pie::host
