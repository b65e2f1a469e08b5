// pie:core/messaging, pie:core/session, and the futures of pie:core/types that they give.
#include "host/api.h"

namespace pie::host {
namespace {

Status CheckSize(Process& process, std::string_view message) {
  const size_t most = process.engine().limits().max_message_bytes;
  if (message.size() <= most) return {};
  return Fail(Code::kExhausted, "a message has at most {} MiB, this one has {} bytes", most >> 20,
              message.size());
}

std::string_view TopicOwner(Process& process, std::string_view topic) {
  return process.engine().TopicOwner(process.options().username, topic);
}

// Makes the guest wait while its client is too slow to take more.
bool WaitsForRoom(Process& process, Wait& wait) {
  const wasm::Signal* room = process.Room();
  if (room != nullptr) wait.signal = room->raw();
  return room != nullptr;
}

}  // namespace

Result<const pie_bridge::Signal*> FutureStringPollable(Process& process, uint32_t future) {
  return (*PIE_TRY(process.handles().texts.Get(future)))->signal().raw();
}

Result<std::optional<std::string>> FutureStringGet(Process& process, uint32_t future) {
  return (*PIE_TRY(process.handles().texts.Get(future)))->Take();
}

Status FutureStringDrop(Process& process, uint32_t future) {
  process.handles().texts.Remove(future);
  return {};
}

Result<const pie_bridge::Signal*> FutureBlobPollable(Process& process, uint32_t future) {
  return (*PIE_TRY(process.handles().blobs.Get(future)))->signal().raw();
}

Result<std::optional<std::string>> FutureBlobGet(Process& process, uint32_t future) {
  return (*PIE_TRY(process.handles().blobs.Get(future)))->Take();
}

Status FutureBlobDrop(Process& process, uint32_t future) {
  process.handles().blobs.Remove(future);
  return {};
}

Status MessagingPush(Process& process, std::string_view topic, std::string_view message) {
  PIE_RETURN_IF_ERROR(CheckSize(process, message));
  return process.engine().hub().Push(process.user(), TopicOwner(process, topic), topic,
                                     std::string(message));
}

Result<uint32_t> MessagingPull(Process& process, std::string_view topic) {
  auto letter =
      PIE_TRY(process.engine().hub().Pull(process.user(), TopicOwner(process, topic), topic));
  return process.handles().texts.Emplace(std::move(letter));
}

Status MessagingBroadcast(Process& process, std::string_view topic, std::string_view message) {
  PIE_RETURN_IF_ERROR(CheckSize(process, message));
  return process.engine().hub().Broadcast(process.user(), TopicOwner(process, topic), topic,
                                          std::string(message));
}

Result<uint32_t> MessagingSubscribe(Process& process, std::string_view topic) {
  auto made =
      PIE_TRY(process.engine().hub().Subscribe(process.user(), TopicOwner(process, topic), topic));
  return process.handles().subscriptions.Emplace(std::move(made));
}

Result<const pie_bridge::Signal*> SubscriptionPollable(Process& process, uint32_t subscription) {
  return (*PIE_TRY(process.handles().subscriptions.Get(subscription)))->signal().raw();
}

Result<std::optional<std::string>> SubscriptionGet(Process& process, uint32_t subscription) {
  return (*PIE_TRY(process.handles().subscriptions.Get(subscription)))->Take();
}

// pie:plus/broadcasts
Result<uint64_t> BroadcastsDropped(Process& process, uint32_t subscription) {
  return (*PIE_TRY(process.handles().subscriptions.Get(subscription)))->dropped();
}

Status SubscriptionUnsubscribe(Process& process, uint32_t subscription) {
  (*PIE_TRY(process.handles().subscriptions.Get(subscription)))->Close();
  return {};
}

Status SubscriptionDrop(Process& process, uint32_t subscription) {
  (*PIE_TRY(process.handles().subscriptions.Get(subscription)))->Close();
  process.handles().subscriptions.Remove(subscription);
  return {};
}

Status SessionSend(Process& process, std::string_view message, Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckSize(process, message));  // first: a waiting call keeps the message
  if (WaitsForRoom(process, wait)) return {};
  if (Listener* listener = process.listener()) listener->OnMessage(message);
  return {};
}

Result<uint32_t> SessionReceive(Process& process) {
  return process.handles().texts.Emplace(process.inbox().Receive());
}

Status SessionSendFile(Process& process, std::string_view data, Wait& wait) {
  PIE_RETURN_IF_ERROR(CheckSize(process, data));
  if (WaitsForRoom(process, wait)) return {};
  if (Listener* listener = process.listener()) listener->OnFile(data);
  return {};
}

Result<uint32_t> SessionReceiveFile(Process& process) {
  return process.handles().blobs.Emplace(process.files().Receive());
}

}  // namespace pie::host
