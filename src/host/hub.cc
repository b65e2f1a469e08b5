#include "host/hub.h"

#include <algorithm>

namespace pie::host {

void Subscription::Offer(std::shared_ptr<const Broadcast> message) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  bytes_ += message->text.size();
  messages_.push_back(std::move(message));
  while (messages_.size() > limits_.max_queued_messages || bytes_ > limits_.max_queued_bytes) {
    bytes_ -= messages_.front()->text.size();
    messages_.pop_front();
  }
  if (!messages_.empty()) signal_.Fire();
}

std::optional<std::string> Subscription::Take() {
  std::lock_guard lock(mutex_);
  if (messages_.empty()) return std::nullopt;
  std::string message = messages_.front()->text;
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
  return PIE_TRY(FindQueue(user, topic))->Push(std::move(message));
}

Result<std::shared_ptr<Letter>> Hub::Pull(std::string_view user, std::string_view topic) {
  std::lock_guard lock(mutex_);
  return PIE_TRY(FindQueue(user, topic))->Receive();
}

Status Hub::Broadcast(std::string_view user, std::string_view topic, std::string message) {
  std::lock_guard lock(mutex_);
  auto found = topics_.find(Key(user, topic));
  if (found == topics_.end()) return {};
  std::vector<std::shared_ptr<Subscription>> present;
  std::erase_if(found->second.subscribers, [&](const auto& weak) {
    auto subscription = weak.lock();
    if (!subscription || subscription->closed()) return true;
    present.push_back(std::move(subscription));
    return false;
  });
  if (present.empty()) return {};
  auto shared = std::make_shared<host::Broadcast>(std::move(message), Charge(BudgetOf(user)));
  if (!shared->charge.Grow(shared->text.size())) {
    return Fail(Code::kExhausted, "messaging: {} MiB wait to be read in all topics",
                BudgetOf(user)->used() >> 20);
  }
  for (auto& subscription : present) subscription->Offer(shared);
  return {};
}

Result<std::shared_ptr<Subscription>> Hub::Subscribe(std::string_view user,
                                                     std::string_view topic) {
  std::lock_guard lock(mutex_);
  Topic* found = PIE_TRY(Find(user, topic));
  // Subscribers who left are noticed by the next broadcast, which may never come.
  if (found->subscribers.size() >= found->drop_expired_at) {
    std::erase_if(found->subscribers, [](const auto& weak) { return weak.expired(); });
    found->drop_expired_at = std::max<size_t>(64, found->subscribers.size() * 2);
  }
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
  if (topic.size() > limits_.max_topic_bytes) {
    return Fail(Code::kInvalid, "a topic's name has at most {} bytes, this one {}",
                limits_.max_topic_bytes, topic.size());
  }
  Key key(user, topic);
  if (topics_.size() >= limits_.max_topics && !topics_.contains(key)) {
    return Fail(Code::kExhausted, "messaging: {} topics are in use", topics_.size());
  }
  return &topics_[key];
}

Result<Mailbox*> Hub::FindQueue(std::string_view user, std::string_view topic) {
  Topic* found = PIE_TRY(Find(user, topic));
  if (!found->queue) {
    found->queue = std::make_shared<Mailbox>(limits_.max_queued_messages, limits_.max_queued_bytes,
                                             BudgetOf(user));
  }
  return found->queue.get();
}

std::shared_ptr<ByteBudget> Hub::BudgetOf(std::string_view user) {
  auto found = budgets_.find(user);
  if (found == budgets_.end()) {
    auto budget = std::make_shared<ByteBudget>(limits_.max_messaging_bytes);
    found = budgets_.emplace(std::string(user), std::move(budget)).first;
  }
  return found->second;
}

void Hub::Prune() {
  std::erase_if(topics_, [](const auto& entry) { return entry.second.idle(); });
  // One that somebody else holds counts something still.
  std::erase_if(budgets_, [](const auto& entry) { return entry.second.use_count() == 1; });
}

}  // namespace pie::host
