// Cases about the two forms of a generation: run by the engine, and step by step.
#include <algorithm>

#include "cases.h"

using namespace inferlet;
using namespace std::chrono_literals;

namespace {

using Tokens = std::vector<uint32_t>;

Result<Context> Asked(const Json& input) {
  Context context = PIE_TRY_SYNC(Context::New(PIE_TRY_SYNC(FirstModel())));
  context.User(PIE_TRY_SYNC(input.Get<std::string>("prompt"))).Cue();
  return context;
}

// Up to a stop token or the limit; greedy, or drawn from the seed.
Result<Generator> GeneratorOf(Context& context, const Json& input, size_t had = 0) {
  const auto seed = PIE_TRY_SYNC(input.Get<uint64_t>("seed"));
  const auto stops = PIE_TRY_SYNC(input.Get<Tokens>("tokens"));
  const auto max_tokens = PIE_TRY_SYNC(input.Get<size_t>("max_tokens"));
  Generator generator = context.Generate(seed == 0 ? Sampler::Argmax() : Sampler::TopP(1.0, 0.95));
  if (seed != 0) generator.Seed(seed);
  return generator.MaxTokens(max_tokens - had).Stop(stops);
}

// At most `n` steps.
Task<Result<Tokens>> Steps(Generator generator, size_t n = SIZE_MAX) {
  Tokens tokens;
  for (size_t ran = 0; ran < n; ++ran) {
    auto step = PIE_TRY(generator.Next());
    if (!step) break;
    tokens.append_range(PIE_TRY(co_await step->Execute()).tokens);
  }
  co_return tokens;
}

// Where a context stands, and what it says next.
Task<Result<std::vector<Tokens>>> StateOf(Context& context) {
  std::vector<Tokens> state = {{context.SeqLen()}, {}};
  state[1].append_range(context.Buffer());
  context.Append(Tokens{97});
  state.push_back(
      PIE_TRY(co_await context.Generate(Sampler::Argmax()).MaxTokens(3).CollectTokens()));
  co_return state;
}

Task<Result<Json>> Chained(const Json& input) {
  Context stepped = PIE_TRY(Asked(input)), a = PIE_TRY(Asked(input)), b = PIE_TRY(Asked(input));
  const Tokens tokens = PIE_TRY(co_await Steps(PIE_TRY(GeneratorOf(stepped, input))));
  chat::Decoder decoder(PIE_TRY(FirstModel()));
  std::string text;
  for (const uint32_t token : tokens) {
    const chat::Event event = PIE_TRY(decoder.Feed(std::span(&token, 1)));
    if (const auto* delta = std::get_if<chat::Delta>(&event)) text += delta->text;
  }
  const auto state = PIE_TRY(co_await StateOf(stepped));
  const Tokens collected = PIE_TRY(co_await PIE_TRY(GeneratorOf(a, input)).CollectTokens());
  const std::string said = PIE_TRY(co_await PIE_TRY(GeneratorOf(b, input)).CollectText());
  const auto state_a = PIE_TRY(co_await StateOf(a));
  const auto state_b = PIE_TRY(co_await StateOf(b));
  co_return Json::Object({{"tokens", tokens},
                          {"state", Json::Array({state[0][0], state[1], state[2]})},
                          {"same_tokens", collected == tokens},
                          {"same_text", said == text},
                          {"same_state", state_a == state && state_b == state}});
}

// A loop that is left, and a collector that goes on from there.
Task<Result<Json>> Left(const Json& input) {
  const auto n = PIE_TRY(input.Get<size_t>("n"));
  Context context = PIE_TRY(Asked(input)), other = PIE_TRY(Asked(input));
  Tokens tokens = PIE_TRY(co_await Steps(PIE_TRY(GeneratorOf(context, input)), n));
  const uint32_t length = context.SeqLen();
  Generator rest = PIE_TRY(GeneratorOf(context, input, tokens.size()));
  tokens.append_range(PIE_TRY(co_await rest.CollectTokens()));
  const Tokens whole = PIE_TRY(co_await PIE_TRY(GeneratorOf(other, input)).CollectTokens());
  Generator left = other.Generate(Sampler::Argmax()).IgnoreEos();
  PIE_TRY(left.Next());
  const auto after = left.Next();
  const bool skipped = !after && after.error().contains("was not executed");
  co_return Json::Object({{"length", length}, {"same", tokens == whole}, {"skipped", skipped}});
}

// A collector that is given up in the middle, and another that goes on from there.
Task<Result<Json>> Cancelled(const Json& input) {
  const auto ms = PIE_TRY(input.Get<int>("ms"));
  const auto max_tokens = PIE_TRY(input.Get<size_t>("max_tokens"));
  Context context = PIE_TRY(Asked(input)), other = PIE_TRY(Asked(input));
  const auto greedy = [](Context& of, size_t tokens) {
    return of.Generate(Sampler::Argmax()).MaxTokens(tokens).IgnoreEos().CollectTokens();
  };
  const Tokens whole = PIE_TRY(co_await greedy(other, max_tokens));
  const size_t prompt = context.Buffer().size();
  co_await Timeout(greedy(context, max_tokens), ms * 1ms);
  const size_t had = context.SeqLen() + context.Buffer().size() - prompt;
  const Tokens rest = PIE_TRY(co_await greedy(context, max_tokens - had));
  co_return Json::Object({{"same", std::ranges::equal(rest, std::span(whole).subspan(had))}});
}

}  // namespace

Cases ChainCases() {
  return {
      {"generate_chained", Chained}, {"generate_left", Left}, {"generate_cancelled", Cancelled}};
}
