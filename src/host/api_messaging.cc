// pie:core/messaging, pie:core/session, and the futures of pie:core/types that they give.
#include "host/api.h"

namespace pie::host {
namespace {

Status CheckSize(Process& process, Str message) {
  const size_t most = process.engine().limits().max_message_bytes;
  if (message.len <= most) return {};
  return Fail(Code::kExhausted, "a message has at most {} MiB, this one has {} bytes", most >> 20,
              message.len);
}

std::string_view TopicOwner(Process& process, Str topic) {
  return process.engine().TopicOwner(process.options().username, View(topic));
}

Status TakeLetter(HandleTable<std::shared_ptr<Letter>>& table, uint32_t handle, bool* ready,
                  Out* out) {
  auto message = (*PIE_TRY(table.Get(handle)))->Take();
  *ready = message.has_value();
  if (message) PutText(out, *message);
  return {};
}

}  // namespace

bool FutureTextGet(void* guest, uint32_t future, bool* ready, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    return TakeLetter(process.handles().texts, future, ready, out);
  });
}

bool FutureBlobGet(void* guest, uint32_t future, bool* ready, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    return TakeLetter(process.handles().blobs, future, ready, out);
  });
}

bool MessagingPush(void* guest, Str topic, Str message, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_RETURN_IF_ERROR(CheckSize(process, message));
    return process.engine().hub().Push(TopicOwner(process, topic), View(topic),
                                       std::string(View(message)));
  });
}

bool MessagingPull(void* guest, Str topic, uint32_t* future, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    auto letter = PIE_TRY(process.engine().hub().Pull(TopicOwner(process, topic), View(topic)));
    *future = PIE_TRY(process.handles().texts.Emplace(std::move(letter)));
    return {};
  });
}

bool MessagingBroadcast(void* guest, Str topic, Str message, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_RETURN_IF_ERROR(CheckSize(process, message));
    return process.engine().hub().Broadcast(TopicOwner(process, topic), View(topic),
                                            std::string(View(message)));
  });
}

bool MessagingSubscribe(void* guest, Str topic, uint32_t* subscription, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    auto made = PIE_TRY(process.engine().hub().Subscribe(TopicOwner(process, topic), View(topic)));
    *subscription = PIE_TRY(process.handles().subscriptions.Emplace(std::move(made)));
    return {};
  });
}

bool SubscriptionGet(void* guest, uint32_t subscription, bool* ready, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    auto message = (*PIE_TRY(process.handles().subscriptions.Get(subscription)))->Take();
    *ready = message.has_value();
    if (message) PutText(out, *message);
    return {};
  });
}

bool SubscriptionUnsubscribe(void* guest, uint32_t subscription, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    (*PIE_TRY(process.handles().subscriptions.Get(subscription)))->Close();
    return {};
  });
}

const pie_bridge::Signal* SessionRoom(void* guest) {
  const wasm::Turn turn(guest);
  Listener* listener = ProcessOf(guest).listener();
  return listener != nullptr && listener->Full() ? listener->room()->raw() : nullptr;
}

bool SessionSend(void* guest, Str message, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_RETURN_IF_ERROR(CheckSize(process, message));
    if (Listener* listener = process.listener()) listener->OnMessage(View(message));
    return {};
  });
}

bool SessionReceive(void* guest, uint32_t* future, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *future = PIE_TRY(process.handles().texts.Emplace(process.inbox().Receive()));
    return {};
  });
}

bool SessionSendFile(void* guest, Str data, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PIE_RETURN_IF_ERROR(CheckSize(process, data));
    if (Listener* listener = process.listener()) listener->OnFile(View(data));
    return {};
  });
}

bool SessionReceiveFile(void* guest, uint32_t* future, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    *future = PIE_TRY(process.handles().blobs.Emplace(process.files().Receive()));
    return {};
  });
}

}  // namespace pie::host
