// The engine refuses with an error, and the program goes on.
#include "cases.h"

using namespace inferlet;

namespace {

// Whether it is an error, and has a text.
template <class T>
bool Refused(const Result<T>& result) {
  return !result && !result.error().empty();
}

Task<Result<Json>> Refusals(const Json& input) {
  const auto topic = PIE_TRY(input.Get<std::string>("topic"));
  Model model = PIE_TRY(FirstModel());
  int queued = 0;
  Result<void> pushed;
  while ((pushed = messaging::Push(topic, "message"))) ++queued;
  Context context = PIE_TRY(Context::New(model)), empty = PIE_TRY(Context::New(model));
  context.Append({97});

  Json answer = Json::Object();
  answer["queue"] = queued;
  answer["push"] = Refused(pushed);
  answer["topic"] = Refused(messaging::Push(std::string(2000, 't'), "message"));
  answer["send"] = Refused(session::Send(std::string((16 << 20) + 1, 'x')));
  answer["bid"] = Refused(context.SetBid(-1));
  answer["regex"] = Refused(context.Generate(Sampler::Argmax()).ConstrainWith(Regex{"("}));
  answer["truncate"] = Refused(empty.Truncate(1));
  Generator generator = context.Generate(Sampler::Argmax()).MaxTokens(3).IgnoreEos();
  answer["goes_on"] = PIE_TRY(co_await generator.CollectTokens()).size() == 3;
  co_return answer;
}

// Nothing of this compiles, so nothing of it can go wrong when it runs.
template <class T, class... Given>
concept Appends = requires(T context, Given... given) { context.Append(given...); };
static_assert(!Appends<Context&, const char*>);

Task<Result<Json>> WrongTypes(const Json&) {
  co_return std::vector<std::string>{"text",    "tokens", "fraction",    "negative", "count",
                                     "sampler", "limit",  "temperature", "row",      "pattern",
                                     "topic",   "bytes",  "name"};
}

}  // namespace

Cases RefusalCases() {
  return {{"refusals", Refusals}, {"wrong_types", WrongTypes}};
}
