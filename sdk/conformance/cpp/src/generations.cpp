// Cases about generation.
#include <algorithm>

#include "cases.h"

using namespace inferlet;

namespace {

// A fresh context that asks the prompt and waits for the model's turn.
Result<Context> Asked(const Json& input) {
  Context context = PIE_TRY_SYNC(Context::New(PIE_TRY_SYNC(FirstModel())));
  context.User(PIE_TRY_SYNC(input.Get<std::string>("prompt"))).Cue();
  return context;
}

Result<Generator> Greedy(Context& context, const Json& input) {
  const auto max_tokens = PIE_TRY_SYNC(input.Get<size_t>("max_tokens"));
  return context.Generate(Sampler::Argmax()).MaxTokens(max_tokens);
}

Task<Result<Json>> CollectedTokens(const Json& input) {
  Context context = PIE_TRY(Asked(input));
  co_return PIE_TRY(co_await PIE_TRY(Greedy(context, input)).CollectTokens());
}

Task<Result<Json>> Flushed(const Json& input) {
  Context context = PIE_TRY(Asked(input)), other = PIE_TRY(Asked(input));
  PIE_TRY(co_await context.Flush());
  PIE_TRY(co_await other.Flush());
  const size_t length = context.SeqLen();
  const auto tokens = PIE_TRY(co_await PIE_TRY(Greedy(context, input)).CollectTokens());
  Generator generator = PIE_TRY(Greedy(other, input));
  const auto entropy = generator.ProbeEachStep(0, Entropy{});
  std::vector<uint32_t> stepped;
  bool probed = true;
  while (auto step = PIE_TRY(generator.Next())) {
    const Output out = PIE_TRY(co_await step->Execute());
    probed = probed && out.Entropy(entropy).has_value();
    stepped.append_range(out.tokens);
  }
  co_return Json::Object(
      {{"tokens", tokens},
       {"same_stepped", stepped == tokens},
       {"probed", probed},
       {"grown", other.SeqLen() + other.Buffer().size() - length == tokens.size()}});
}

Task<Result<Json>> CollectedText(const Json& input) {
  Context context = PIE_TRY(Asked(input));
  co_return PIE_TRY(co_await PIE_TRY(Greedy(context, input)).CollectText());
}

Task<Result<Json>> Steps(const Json& input) {
  Context context = PIE_TRY(Asked(input));
  Generator generator = PIE_TRY(Greedy(context, input));
  std::vector<uint32_t> tokens;
  while (auto step = PIE_TRY(generator.Next())) {
    tokens.append_range(PIE_TRY(co_await step->Execute()).tokens);
  }
  co_return Json::Object({{"tokens", tokens},
                          {"generated", generator.TokensGenerated()},
                          {"done", generator.IsDone()}});
}

Task<Result<Json>> Manual(const Json& input) {
  Context context = PIE_TRY(Asked(input));
  Generator generator = PIE_TRY(Greedy(context, input));
  std::vector<uint32_t> tokens;
  while (auto step = PIE_TRY(generator.Next())) {
    const auto handle = step->ClearSampler().Probe(0, Logits{});
    const Output out = PIE_TRY(co_await step->Execute());
    const std::span<const float> logits = out.Logits(handle).value();
    const uint32_t best = std::ranges::max_element(logits) - logits.begin();
    tokens.append_range(generator.Accept({best}));
  }
  co_return tokens;
}

Task<Result<Json>> Overridden(const Json& input) {
  const auto token = PIE_TRY(input.Get<uint32_t>("token"));
  Context context = PIE_TRY(Asked(input));
  Generator generator = PIE_TRY(Greedy(context, input));
  std::vector<uint32_t> tokens;
  while (auto step = PIE_TRY(generator.Next())) {
    PIE_TRY(co_await step->Execute());
    tokens.append_range(generator.Accept({token}));
  }
  co_return Json::Object({{"tokens", tokens},
                          {"generated", generator.TokensGenerated()},
                          {"done", generator.IsDone()}});
}

// Allows some ids, and notes what it is told.
struct OnlyThese {
  std::vector<uint32_t> mask;
  Json& calls;

  std::vector<uint32_t> Step(std::span<const uint32_t> accepted) {
    if (calls.Size() < 3) calls.Append(ToJson(accepted));
    return mask;
  }
};

Task<Result<Json>> Constrained(const Json& input) {
  const auto allowed = PIE_TRY(input.Get<std::vector<uint32_t>>("allowed"));
  Context context = PIE_TRY(Asked(input));
  Generator generator = PIE_TRY(Greedy(context, input));
  Json calls = Json::Array();
  generator.Constrain(OnlyThese{brle::Allow(allowed), calls});
  const auto tokens = PIE_TRY(co_await generator.CollectTokens());
  co_return Json::Object({{"tokens", tokens}, {"calls", calls}});
}

// Greedy among the allowed tokens, in a fresh context (which the generator keeps alive).
Result<Generator> MaskedGreedy(const Json& input) {
  const auto allowed = PIE_TRY_SYNC(input.Get<std::vector<uint32_t>>("allowed"));
  Context context = PIE_TRY_SYNC(Asked(input));
  return PIE_TRY_SYNC(Greedy(context, input)).LogitMask(brle::Allow(allowed));
}

Task<Result<Json>> Masked(const Json& input) {
  co_return PIE_TRY(co_await PIE_TRY(MaskedGreedy(input)).CollectTokens());
}

Task<Result<Json>> Stops(const Json& input) {
  const auto stops = PIE_TRY(input.Get<std::vector<uint32_t>>("tokens"));
  Generator own = PIE_TRY(MaskedGreedy(input)), added = PIE_TRY(MaskedGreedy(input));
  Generator replaced = PIE_TRY(MaskedGreedy(input)), none = PIE_TRY(MaskedGreedy(input));
  Json answer = Json::Object();
  answer["own"] = PIE_TRY(co_await own.CollectTokens());
  answer["added"] = PIE_TRY(co_await added.Stop(stops).CollectTokens());
  answer["replaced"] = PIE_TRY(co_await replaced.IgnoreEos().Stop(stops).CollectTokens());
  answer["none"] = PIE_TRY(co_await none.IgnoreEos().CollectTokens());
  co_return answer;
}

// All allowed tokens are about equally likely.
Result<Generator> Random(const Json& input) {
  const auto max_tokens = PIE_TRY_SYNC(input.Get<size_t>("max_tokens"));
  const auto seed = PIE_TRY_SYNC(input.Get<uint64_t>("seed"));
  Context context = PIE_TRY_SYNC(Asked(input));
  return context.Generate(Sampler::TopP(1000.0, 1.0)).MaxTokens(max_tokens).Seed(seed);
}

Task<Result<Json>> Special(const Json& input) {
  const auto mask = brle::Allow(PIE_TRY(input.Get<std::vector<uint32_t>>("allowed")));
  Generator first = PIE_TRY(Random(input)), second = PIE_TRY(Random(input));
  Generator stepped = PIE_TRY(Random(input));
  Json calls = Json::Array();
  stepped.Constrain(OnlyThese{mask, calls});
  Json answer = Json::Object();
  answer["tokens"] = PIE_TRY(co_await first.LogitMask(mask).CollectTokens());
  answer["text"] = PIE_TRY(co_await second.LogitMask(mask).CollectText());
  answer["stepped"] = PIE_TRY(co_await stepped.CollectText());
  co_return answer;
}

Task<Result<Json>> Probed(const Json& input) {
  Context context = PIE_TRY(Asked(input));
  Generator generator = PIE_TRY(Greedy(context, input));
  const auto entropy = generator.ProbeEachStep(0, Entropy{});
  Json entropies = Json::Array();
  while (auto step = PIE_TRY(generator.Next())) {
    entropies.Append(PIE_TRY(co_await step->Execute()).Entropy(entropy));
  }
  co_return entropies;
}

Task<Result<std::vector<uint32_t>>> Sampled(const Json& input, uint64_t seed) {
  Context context = PIE_TRY(Asked(input));
  const auto max_tokens = PIE_TRY(input.Get<size_t>("max_tokens"));
  Generator generator = context.Generate(Sampler::TopP(1.0, 0.95)).MaxTokens(max_tokens);
  co_return co_await generator.Seed(seed).CollectTokens();
}

Task<Result<Json>> Seeded(const Json& input) {
  const auto seed = PIE_TRY(input.Get<uint64_t>("seed"));
  const auto first = PIE_TRY(co_await Sampled(input, seed));
  const auto again = PIE_TRY(co_await Sampled(input, seed));
  const auto other = PIE_TRY(co_await Sampled(input, seed + 1));
  co_return Json::Object({{"same", first == again}, {"differs", first != other}});
}

}  // namespace

Cases GenerationCases() {
  return {{"generate_tokens", CollectedTokens},
          {"generate_flushed", Flushed},
          {"generate_text", CollectedText},
          {"generate_steps", Steps},
          {"generate_manual", Manual},
          {"generate_override", Overridden},
          {"generate_constrained", Constrained},
          {"generate_masked", Masked},
          {"generate_stops", Stops},
          {"generate_special", Special},
          {"generate_probed", Probed},
          {"generate_seeded", Seeded}};
}
