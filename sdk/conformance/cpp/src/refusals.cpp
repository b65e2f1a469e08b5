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

// Whether it is an error whose text begins with the argument's name.
template <class T>
bool Names(std::string_view argument, const Result<T>& result) {
  return !result && result.error().starts_with(std::string(argument) + " must be ");
}

Task<Result<Json>> WrongRanges(const Json&) {
  Model model = PIE_TRY(FirstModel());
  Context context = PIE_TRY(Context::New(model));
  context.Append({97});
  Generator cold = context.Generate(Sampler::TopP(-1, 0.9F));
  Generator top_p = context.Generate(Sampler::TopP(1, 2));
  Generator min_p = context.Generate(Sampler::MinP(1, -0.5F));
  Forward forward = context.Forward();
  forward.Input(std::vector<uint32_t>{97});
  forward.Probe(0, Distribution{.temperature = -1, .k = 5});

  std::vector<std::string> failed;
  if (Names("temperature", cold.Next())) failed.push_back("temperature");
  if (Names("p", top_p.Next())) failed.push_back("top_p");
  if (Names("p", min_p.Next())) failed.push_back("min_p");
  if (Names("temperature", co_await forward.Execute())) failed.push_back("distribution");
  co_return failed;
}

Task<Result<Json>> McpErrorText(const Json&) {
  const auto session = mcp::Connect("none");
  if (session) co_return Json::Object();
  const std::string text = session.error();
  const std::string code = " (code " + std::to_string(session.error().code) + ")";
  co_return Json::Object({{"text", text}, {"has_code", text.ends_with(code)}});
}

}  // namespace

Cases RefusalCases() {
  return {{"refusals", Refusals},
          {"wrong_types", WrongTypes},
          {"wrong_ranges", WrongRanges},
          {"mcp_error", McpErrorText}};
}
