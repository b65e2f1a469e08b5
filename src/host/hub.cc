#include "host/hub.h"

#include <algorithm>

namespace pie::host {
namespace {

constexpr size_t kReferenceBytes = 32;  // memory of a broadcast in one subscriber's buffer
constexpr auto kPruneAgain = std::chrono::seconds(1);

}  // namespace

void Subscription::Offer(std::shared_ptr<const Broadcast> message) {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  bytes_ += message->text.size();
  messages_.push_back(std::move(message));
  while (messages_.size() > limits_.max_queued_messages || bytes_ > limits_.max_queued_bytes) {
    bytes_ -= messages_.front()->text.size();
    messages_.pop_front();
    ++dropped_;
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

uint64_t Subscription::dropped() const {
  std::lock_guard lock(mutex_);
  return dropped_;
}

bool Subscription::closed() const {
  std::lock_guard lock(mutex_);
  return closed_;
}

bool Hub::Topic::idle() const {
  if (queue && !queue->idle()) return false;
  return std::ranges::all_of(subscribers, &std::weak_ptr<Subscription>::expired);
}

bool Hub::Topic::abandoned(Time since) const {
  return used < since && !(queue && queue->awaited()) &&
         std::ranges::all_of(subscribers, &std::weak_ptr<Subscription>::expired);
}

Status Hub::Push(Caller by, std::string_view owner, std::string_view topic, std::string message) {
  const auto shelf = ShelfOf(owner);
  std::lock_guard lock(shelf->mutex);
  Mailbox* queue = PIE_TRY(FindQueue(*shelf, by, topic));
  return queue->Push(std::move(message), ChargeTo(by, &User::messages));
}

Result<std::shared_ptr<Letter>> Hub::Pull(Caller by, std::string_view owner,
                                          std::string_view topic) {
  const auto shelf = ShelfOf(owner);
  std::lock_guard lock(shelf->mutex);
  return PIE_TRY(FindQueue(*shelf, by, topic))->Receive();
}

Status Hub::Broadcast(Caller by, std::string_view owner, std::string_view topic,
                      std::string message) {
  const auto shelf = ShelfOf(owner);
  std::lock_guard lock(shelf->mutex);
  auto found = shelf->topics.find(topic);
  if (found == shelf->topics.end()) return {};
  found->second.used = std::chrono::steady_clock::now();
  std::vector<std::shared_ptr<Subscription>> present;
  std::erase_if(found->second.subscribers, [&](const auto& weak) {
    auto subscription = weak.lock();
    if (!subscription || subscription->closed()) return true;
    present.push_back(std::move(subscription));
    return false;
  });
  if (present.empty()) return {};
  auto shared =
      std::make_shared<host::Broadcast>(std::move(message), ChargeTo(by, &User::messages));
  // Each subscriber keeps a reference to the broadcast.
  if (!shared->charge.Grow(shared->text.size() + present.size() * kReferenceBytes)) {
    return Fail(Code::kExhausted,
                "messaging: {} MiB of your messages wait to be read in all topics",
                by->messages.used() >> 20);
  }
  for (auto& subscription : present) subscription->Offer(shared);
  return {};
}

Result<std::shared_ptr<Subscription>> Hub::Subscribe(Caller by, std::string_view owner,
                                                     std::string_view topic) {
  const auto shelf = ShelfOf(owner);
  std::lock_guard lock(shelf->mutex);
  Topic* found = PIE_TRY(Find(*shelf, by, topic));
  // A broadcast removes departed subscribers, but there may never be one, so remove them here.
  if (found->subscribers.size() >= found->drop_expired_at) {
    std::erase_if(found->subscribers, [](const auto& weak) { return weak.expired(); });
    found->drop_expired_at = std::max<size_t>(64, found->subscribers.size() * 2);
  }
  if (found->subscribers.size() >= limits_.max_subscribers) {
    return Fail(Code::kExhausted, "messaging: topic '{}' has {} subscribers; that is the limit",
                topic, found->subscribers.size());
  }
  auto subscription = std::make_shared<Subscription>(limits_);
  found->subscribers.push_back(subscription);
  return subscription;
}

size_t Hub::topics() {
  std::vector<std::shared_ptr<Shelf>> shelves;
  {
    std::lock_guard lock(mutex_);
    for (const auto& [owner, shelf] : shelves_) shelves.push_back(shelf);
  }
  size_t count = 0;
  for (const auto& shelf : shelves) {
    std::lock_guard lock(shelf->mutex);
    Prune(*shelf, std::chrono::steady_clock::now());
    count += shelf->topics.size();
  }
  return count;
}

std::shared_ptr<Hub::Shelf> Hub::ShelfOf(std::string_view owner) {
  std::lock_guard lock(mutex_);
  auto found = shelves_.find(owner);
  if (found != shelves_.end()) return found->second;
  if (shelves_.size() >= forget_at_) {
    // No other thread can reach a shelf that only this table holds.
    std::erase_if(shelves_, [](const auto& entry) {
      return entry.second.use_count() == 1 && entry.second->topics.empty();
    });
    forget_at_ = std::max<size_t>(64, shelves_.size() * 2);
  }
  return shelves_.emplace(std::string(owner), std::make_shared<Shelf>()).first->second;
}

Result<Hub::Topic*> Hub::Find(Shelf& shelf, Caller by, std::string_view topic) {
  const auto now = std::chrono::steady_clock::now();
  auto found = shelf.topics.find(topic);
  if (found != shelf.topics.end()) {
    found->second.used = now;
    return &found->second;
  }
  if (topic.size() > limits_.max_topic_bytes) {
    return Fail(Code::kInvalid, "a topic's name has at most {} bytes, this one has {}",
                limits_.max_topic_bytes, topic.size());
  }
  // The search for topics to delete is slow. It runs when the number of topics has doubled, or when
  // there are too many and some time has passed.
  if (shelf.topics.size() >= shelf.prune_at) Prune(shelf, now);
  Charge charge = ChargeTo(by, &User::topics);
  bool fits = charge.Grow(1);
  if (!fits && now - shelf.pruned > kPruneAgain) {
    Prune(shelf, now);
    fits = charge.Grow(1);
  }
  if (!fits) {
    return Fail(Code::kExhausted, "messaging: you use {} topics, and all users {} of {}",
                by->topics.used(), by->topics.whole().used(), limits_.max_topics);
  }
  Topic& made = shelf.topics[std::string(topic)];
  made.charge = std::move(charge);
  made.used = now;
  return &made;
}

Result<Mailbox*> Hub::FindQueue(Shelf& shelf, Caller by, std::string_view topic) {
  Topic* found = PIE_TRY(Find(shelf, by, topic));
  if (!found->queue) {
    found->queue = std::make_shared<Mailbox>(limits_.max_queued_messages, limits_.max_queued_bytes);
  }
  return found->queue.get();
}

void Hub::Prune(Shelf& shelf, Time now) const {
  const Time since = now - std::chrono::seconds(limits_.topic_idle_secs);
  std::erase_if(shelf.topics, [since](const auto& entry) {
    return entry.second.idle() || entry.second.abandoned(since);
  });
  shelf.pruned = now;
  shelf.prune_at = std::max<size_t>(256, shelf.topics.size() * 2);
}

}  // namespace pie::host
