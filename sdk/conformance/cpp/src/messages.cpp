// Cases about waiting: timers, the session, messages.
#include <chrono>

#include "cases.h"

using namespace inferlet;
using namespace std::chrono_literals;

namespace {

Task<void> Nap(int ms, Json& ended) {
  co_await Sleep(ms * 1ms);
  ended.Append(ms);
}

Task<Result<Json>> SleepOrder(const Json&) {
  Json ended = Json::Array();
  co_await WhenAll(Nap(30, ended), Nap(10, ended), Nap(20, ended));
  co_return ended;
}

Task<Result<Json>> TimeoutCase(const Json& input) {
  const auto ms = PIE_TRY(input.Get<int>("ms"));
  const auto message = co_await Timeout(session::Receive(), ms * 1ms);
  if (!message) co_return "timeout";
  co_return Json(*message);
}

Task<Result<Json>> PushPull(const Json& input) {
  const auto topic = PIE_TRY(input.Get<std::string>("topic"));
  PIE_TRY(messaging::Push(topic, "one"));
  PIE_TRY(messaging::Push(topic, "two"));
  const auto first = PIE_TRY(co_await messaging::Pull(topic));
  const auto second = PIE_TRY(co_await messaging::Pull(topic));
  co_return Json::Array({first, second});
}

Task<Result<Json>> Overflow(const Json& input) {
  const auto topic = PIE_TRY(input.Get<std::string>("topic"));
  const messaging::Subscription subscription = PIE_TRY(messaging::Subscribe(topic));
  const uint64_t before = subscription.Dropped();
  const auto n = PIE_TRY(input.Get<int>("n"));
  for (int i = 0; i < n; ++i) PIE_TRY(messaging::Broadcast(topic, std::to_string(i)));
  const uint64_t dropped = subscription.Dropped();
  co_return Json::Object(
      {{"before", before}, {"dropped", dropped}, {"first", co_await subscription.Next()}});
}

Task<Result<Json>> PushWait(const Json& input) {
  const auto topic = PIE_TRY(input.Get<std::string>("topic"));
  const auto refused = [&] { return !messaging::Push(topic, "message"); };
  int queued = 0;
  while (!refused()) ++queued;
  auto pushed = messaging::PushWait(topic, "last");
  const auto first = PIE_TRY(co_await messaging::Pull(topic));
  PIE_TRY(co_await pushed);
  const bool again = refused();
  std::string last;
  for (; queued > 0; --queued) last = PIE_TRY(co_await messaging::Pull(topic));
  co_return Json::Object(
      {{"refused", true}, {"first", first}, {"refused_again", again}, {"last", last}});
}

Task<Result<Json>> Broadcast(const Json& input) {
  const auto topic = PIE_TRY(input.Get<std::string>("topic"));
  messaging::Subscription subscription = PIE_TRY(messaging::Subscribe(topic));
  PIE_TRY(messaging::Broadcast(topic, "x"));
  co_return co_await subscription.Next();
}

}  // namespace

Cases MessageCases() {
  return {{"sleep_order", SleepOrder}, {"timeout", TimeoutCase}, {"push_pull", PushPull},
          {"overflow", Overflow},      {"push_wait", PushWait},  {"broadcast", Broadcast}};
}
