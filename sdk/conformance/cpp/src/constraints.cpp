// Cases about grammars, and about generations that follow them.
#include "constraints.h"

#include <array>

using namespace inferlet;

Result<GrammarConstraint> ConstraintOf(const Json& input) {
  const Model model = PIE_TRY_SYNC(FirstModel());
  const auto kind = PIE_TRY_SYNC(input.Get<std::string>("kind"));
  const auto source = PIE_TRY_SYNC(input.Get<std::string>("source"));
  if (kind == "regex") return GrammarConstraint::FromRegex(source, model);
  if (kind == "ebnf") return GrammarConstraint::FromEbnf(source, model);
  if (kind == "json_schema") return GrammarConstraint::FromJsonSchema(source, model);
  return GrammarConstraint::Json(model);
}

Result<Context> AskedContext(const Json& input) {
  Context context = PIE_TRY_SYNC(Context::New(PIE_TRY_SYNC(FirstModel())));
  context.User(PIE_TRY_SYNC(input.Get<std::string>("prompt"))).Cue();
  return context;
}

namespace {

Sampler SamplerOf(std::string_view name) {
  if (name == "top_p") return Sampler::TopP(1.5, 0.9);
  if (name == "top_k") return Sampler::TopK(1.5, 20);
  if (name == "min_p") return Sampler::MinP(1.5, 0.02);
  if (name == "top_k_top_p") return Sampler::TopKTopP(1.5, 20, 0.9);
  if (name == "multinomial") return Sampler::Multinomial(1.5, 1);
  if (name == "draws") return Sampler::Multinomial(1.5, 3);
  return Sampler::TopP(1000, 1);
}

}  // namespace

Result<Generator> Drawn(Context& context, const Json& input) {
  const auto name = PIE_TRY_SYNC(input.Get<std::string>("sampler", ""));
  const auto seed = PIE_TRY_SYNC(input.Get<uint64_t>("seed", 0));
  const auto allowed = PIE_TRY_SYNC(input.Get<Tokens>("allowed", {}));
  Generator generator = context.Generate(seed == 0 ? Sampler::Argmax() : SamplerOf(name));
  if (seed != 0) generator.Seed(seed);
  if (!allowed.empty()) generator.LogitMask(brle::Allow(allowed));
  return generator.MaxTokens(PIE_TRY_SYNC(input.Get<size_t>("max_tokens", 40)))
      .Stop(PIE_TRY_SYNC(input.Get<Tokens>("tokens", {})));
}

Json GenerationState(const Context& context, const Generator& generator) {
  return Json::Array({context.SeqLen(), ToJson(std::span(context.Buffer())),
                      generator.TokensGenerated(), generator.IsDone()});
}

namespace {

Result<Grammar> GrammarOf(const Json& input) {
  const auto kind = PIE_TRY_SYNC(input.Get<std::string>("kind"));
  const auto source = PIE_TRY_SYNC(input.Get<std::string>("source"));
  if (kind == "regex") return Grammar::FromRegex(source);
  if (kind == "ebnf") return Grammar::FromEbnf(source);
  return kind == "json_schema" ? Grammar::FromJsonSchema(source) : Grammar::Json();
}

// Whether it is an error, and has a text.
bool Refused(const Result<void>& result) {
  return !result && !result.error().empty();
}

Task<Result<Json>> MatcherCase(const Json& input) {
  const Grammar grammar = PIE_TRY(GrammarOf(input));
  Matcher matcher = PIE_TRY(Matcher::New(grammar, PIE_TRY(FirstModel()).Tokenizer()));
  Json answer = Json::Object({{"source", grammar.ToString()}});
  const Tokens first = matcher.NextTokenLogitMask();
  answer["first"] = first;
  answer["forced"] = PIE_TRY(matcher.ForcedTokens());
  PIE_TRY(matcher.AcceptTokens(PIE_TRY(input.Get<Tokens>("tokens"))));
  const Tokens after = matcher.NextTokenLogitMask();
  answer["after"] = after;
  answer["terminated"] = matcher.IsTerminated();
  const Matcher fork = PIE_TRY(matcher.Fork());
  PIE_TRY(matcher.Rollback(PIE_TRY(input.Get<uint32_t>("n"))));
  answer["back"] = matcher.NextTokenLogitMask();
  matcher.Reset();
  answer["fork_same"] = fork.NextTokenLogitMask() == after;
  answer["reset_same"] = matcher.NextTokenLogitMask() == first;
  answer["refused"] = Refused(matcher.AcceptTokens(Tokens{0}));
  answer["too_far"] = Refused(matcher.Rollback(1));
  co_return answer;
}

Task<Result<Json>> GrammarBad(const Json& input) {
  co_return PIE_TRY(GrammarOf(input)).ToString();
}

// A constraint of our own that restricts nothing.
Tokens Anything(std::span<const uint32_t>) {
  return {};
}

struct Outcome {
  Tokens tokens;
  Json state;
  bool operator==(const Outcome&) const = default;
};

Task<Result<Outcome>> OutcomeOf(const Context& context, Generator generator) {
  Tokens tokens = PIE_TRY(co_await generator.CollectTokens());
  Json state = GenerationState(context, generator);
  co_return Outcome{std::move(tokens), std::move(state)};
}

Task<Result<Json>> GenerateGrammar(const Json& input) {
  std::vector<Context> contexts;
  std::vector<Generator> generators;
  for (int i = 0; i < 4; ++i) contexts.push_back(PIE_TRY(AskedContext(input)));
  for (Context& context : contexts) {
    Generator generator = PIE_TRY(Drawn(context, input));
    generators.push_back(generator.Constrain(PIE_TRY(ConstraintOf(input))));
  }
  generators[1].ProbeEachStep(0, Entropy{});
  generators[2].Constrain(Anything);
  generators[3].Constrain(PIE_TRY(ConstraintOf(input)));
  std::vector<Outcome> outcomes;
  for (int i = 0; i < 4; ++i) {
    outcomes.push_back(PIE_TRY(co_await OutcomeOf(contexts[i], generators[i])));
  }
  const Model model = PIE_TRY(FirstModel());
  co_return Json::Object({{"text", PIE_TRY(model.Tokenizer().Decode(outcomes[0].tokens))},
                          {"state", outcomes[0].state},
                          {"same_stepped", outcomes[1] == outcomes[0]},
                          {"same_beside", outcomes[2] == outcomes[0]},
                          {"same_twice", outcomes[3] == outcomes[0]}});
}

Task<Result<Json>> GenerateConflict(const Json& input) {
  Context context = PIE_TRY(AskedContext(input));
  Generator generator = PIE_TRY(Drawn(context, input));
  generator.Constrain(PIE_TRY(ConstraintOf(input)));
  if (PIE_TRY(input.Get<int>("n")) != 0) generator.Constrain(Anything);
  co_return PIE_TRY(co_await generator.CollectText());
}

Task<Result<Json>> CollectJsonCase(const Json& input) {
  Context context = PIE_TRY(AskedContext(input));
  Generator generator = PIE_TRY(Drawn(context, input));
  Json value = PIE_TRY(co_await generator.CollectJson(input["value"].Dump()));
  co_return Json::Object({{"value", std::move(value)}, {"done", generator.IsDone()}});
}

Task<Result<Json>> CollectThinking(const Json& input) {
  Context context = PIE_TRY(AskedContext(input));
  Generator generator = PIE_TRY(Drawn(context, input));
  PIE_TRY(generator.ConstrainWith(Regex{PIE_TRY(input.Get<std::string>("source"))}));
  Json value = PIE_TRY(co_await generator.ThinkFirst().CollectJson(input["value"].Dump()));
  co_return Json::Object({{"value", std::move(value)}, {"tokens", generator.TokensGenerated()}});
}

Task<Result<Json>> NativeBad(const Json& input) {
  const Model model = PIE_TRY(FirstModel());
  const auto schemas = PIE_TRY(input.Get<std::vector<std::string>>("tools"));
  const auto grammar = tools::TryNativeGrammar(model, schemas);
  const auto matcher = tools::TryNativeMatcher(model, schemas);
  if (grammar.has_value() != matcher.has_value() ||
      (!grammar && grammar.error() != matcher.error())) {
    co_return Error("the grammar and the matcher differ");
  }
  if (!grammar) co_return Error(grammar.error());
  co_return Json::Object({{"grammar", grammar->has_value()}, {"matcher", matcher->has_value()}});
}

Task<Result<Json>> NativeCall(const Json& input) {
  const Model model = PIE_TRY(FirstModel());
  const auto schemas = PIE_TRY(input.Get<std::vector<std::string>>("tools"));
  std::optional<Matcher> matcher = tools::NativeMatcher(model, schemas);
  if (!matcher) co_return Json::Object({{"has", false}});
  Context context = PIE_TRY(AskedContext(input));
  Generator generator = PIE_TRY(Drawn(context, input));
  generator.Constrain(GrammarConstraint(*std::move(matcher)));
  const Tokens tokens = PIE_TRY(co_await generator.CollectTokens());
  const tools::Event event = PIE_TRY(tools::Decoder(model).Feed(tokens));
  const auto* call = std::get_if<tools::Call>(&event);
  if (!call) co_return Error("there is no call");
  co_return Json::Object({{"has", tools::NativeGrammar(model, schemas).has_value()},
                          {"name", call->name},
                          {"args", PIE_TRY(Json::Parse(call->arguments))}});
}

enum class Size { kSmall, kLarge };
constexpr std::array<const char*, 2> EnumTexts(Size) {
  return {"small", "large"};
}

struct Pie {
  bool good = false;
  std::optional<uint8_t> price;
  Size size = Size::kSmall;
  std::vector<int32_t> slices;
  static constexpr auto kFields =
      std::tuple(Field("good", &Pie::good), Field("price", &Pie::price), Field("size", &Pie::size),
                 Field("slices", &Pie::slices));
};

Task<Result<Json>> CollectTyped(const Json& input) {
  Context context = PIE_TRY(AskedContext(input));
  const Pie pie = PIE_TRY(co_await PIE_TRY(Drawn(context, input)).CollectJson<Pie>());
  co_return Json::Object({{"typed", pie.size == Size::kSmall || pie.size == Size::kLarge}});
}

}  // namespace

Cases ConstraintCases() {
  return {{"matcher", MatcherCase},
          {"grammar_bad", GrammarBad},
          {"generate_grammar", GenerateGrammar},
          {"generate_conflict", GenerateConflict},
          {"collect_thinking", CollectThinking},
          {"native_bad", NativeBad},
          {"native_call", NativeCall},
          {"collect_json", CollectJsonCase},
          {"collect_typed", CollectTyped}};
}
