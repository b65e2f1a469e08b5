// Cases about single passes.
#include <algorithm>

#include "cases.h"

using namespace inferlet;

namespace {

// Whether a handle of this type compiles where a sampler's is needed.
template <class Handle>
constexpr bool kReadsToken = requires(const Output& out, Handle handle) { out.Token(handle); };

struct Prepared {
  Context context;
  std::vector<uint32_t> tokens;
  uint32_t last;  // the row of the last token
};

Result<Prepared> Prepare(const Json& input) {
  Model model = PIE_TRY_SYNC(FirstModel());
  auto tokens = model.Tokenizer().Encode(PIE_TRY_SYNC(input.Get<std::string>("text")));
  const uint32_t last = tokens.size() - 1;
  return Prepared{PIE_TRY_SYNC(Context::New(model)), std::move(tokens), last};
}

Task<Result<Json>> ForwardCase(const Json& input) {
  auto [context, tokens, last] = PIE_TRY(Prepare(input));
  Forward forward = context.Forward();
  forward.Input(tokens);
  const auto sampled = forward.Sample({last}, Sampler::Argmax());
  const auto logits_at = forward.Probe(last, Logits{});
  const auto distribution = forward.Probe(last, Distribution{.temperature = 1.0, .k = 5});
  const auto logprob = forward.Probe(last, Logprob{97});
  const auto logprobs = forward.Probe(last, Logprobs{{97, 98}});
  const auto entropy = forward.Probe(last, Entropy{});
  const Output out = PIE_TRY(co_await forward.Execute());

  const std::span<const float> logits = out.Logits(logits_at).value();
  const auto [ids, probs] = out.Distribution(distribution).value();
  co_return Json::Object({{"token", out.Token(sampled)},
                          {"argmax", std::ranges::max_element(logits) - logits.begin()},
                          {"vocab", logits.size()},
                          {"ids", ToJson(ids)},
                          {"probs", ToJson(probs)},
                          {"logprob", out.Logprobs(logprob).value()[0]},
                          {"logprobs", ToJson(out.Logprobs(logprobs).value())},
                          {"entropy", out.Entropy(entropy)},
                          {"mismatch", !kReadsToken<decltype(entropy)>}});
}

Task<Result<Json>> EmbeddingCase(const Json& input) {
  auto [context, tokens, last] = PIE_TRY(Prepare(input));
  Forward forward = context.Forward();
  forward.Input(tokens);
  const auto sampled = forward.Sample({last}, Sampler::Embedding());
  const auto first = forward.Probe(0, Embedding{});
  const auto probed = forward.Probe(last, Embedding{});
  const Output out = PIE_TRY(co_await forward.Execute());
  const std::span<const float> numbers = out.Embedding(sampled).value();
  const auto is = [&](auto handle) {
    return std::ranges::equal(numbers, out.Embedding(handle).value());
  };

  size_t steps = 0;
  Context other = PIE_TRY(Context::New(PIE_TRY(FirstModel())));
  other.User(PIE_TRY(input.Get<std::string>("text"))).Cue();
  Generator g = other.Generate(Sampler::Argmax()).MaxTokens(3);
  const auto handle = g.ProbeEachStep(0, Embedding{});
  while (auto step = PIE_TRY(g.Next())) {
    const Output step_out = PIE_TRY(co_await step->Execute());
    steps += step_out.Embedding(handle).value().size() == numbers.size();
  }
  Generator refused = other.Generate(Sampler::Embedding());
  co_return Json::Object({{"size", numbers.size()},
                          {"values", ToJson(numbers.first(4))},
                          {"same", is(probed)},
                          {"differs", !is(first)},
                          {"no_token", !out.Token(sampled)},
                          {"steps", steps},
                          {"refused", !refused.Next()}});
}

Task<Result<Json>> ForwardRows(const Json& input) {
  auto [context, tokens, last] = PIE_TRY(Prepare(input));
  Forward forward = context.Forward();
  forward.Input(tokens);
  const auto handle = forward.Sample({0, 1, 2}, Sampler::Argmax());
  co_return PIE_TRY(co_await forward.Execute()).TokensAt(handle);
}

Task<Result<Json>> ForwardEmpty(const Json&) {
  Context context = PIE_TRY(Context::New(PIE_TRY(FirstModel())));
  PIE_TRY(co_await context.Forward().Execute());
  co_return nullptr;
}

Task<Result<Json>> ForwardMask(const Json& input) {
  auto [context, tokens, last] = PIE_TRY(Prepare(input));
  const auto token = PIE_TRY(input.Get<uint32_t>("token"));
  Forward forward = context.Forward();
  forward.Input(tokens).Mask(brle::Allow({token}));
  const auto handle = forward.Sample({last}, Sampler::Argmax());
  co_return PIE_TRY(co_await forward.Execute()).Token(handle);
}

// All that one sees of the last row under a mask: its logits, then its entropy.
Task<Result<std::vector<float>>> LastRow(const Json& input,
                                         std::vector<std::vector<uint32_t>> mask) {
  auto [context, tokens, last] = PIE_TRY(Prepare(input));
  Forward forward = context.Forward();
  forward.Input(tokens);
  if (!mask.empty()) forward.AttentionMask(mask);
  const auto logits = forward.Probe(last, Logits{});
  const auto entropy = forward.Probe(last, Entropy{});
  const Output out = PIE_TRY(co_await forward.Execute());
  std::vector<float> seen(std::from_range, out.Logits(logits).value());
  seen.push_back(out.Entropy(entropy).value());
  co_return seen;
}

Task<Result<Json>> AttentionMask(const Json& input) {
  const uint32_t last = PIE_TRY(Prepare(input)).last;
  std::vector<std::vector<uint32_t>> all_true;
  for (uint32_t row = 0; row <= last; ++row) all_true.push_back({0, row + 1});
  auto last_only = all_true;
  last_only[last] = {last, 1};
  const auto plain = PIE_TRY(co_await LastRow(input, {}));
  const auto hidden = PIE_TRY(co_await LastRow(input, last_only));
  const auto visible = PIE_TRY(co_await LastRow(input, all_true));
  co_return Json::Object(
      {{"hidden_differs", hidden != plain}, {"all_true_same", visible == plain}});
}

Task<Result<Json>> InputAt(const Json& input) {
  auto [context, tokens, last] = PIE_TRY(Prepare(input));
  PIE_TRY(co_await context.Append(tokens).Flush());
  const uint32_t before = context.SeqLen();
  Forward forward = context.Forward();
  forward.InputAt({{97u}}, {{before}}).Sample({0}, Sampler::Argmax());
  PIE_TRY(co_await forward.Execute());
  co_return Json::Object({{"advanced", context.SeqLen() - before}});
}

Task<Result<Json>> Draws(const Json& input) {
  auto [context, tokens, last] = PIE_TRY(Prepare(input));
  Forward forward = context.Forward();
  forward.Input(tokens).Seed(PIE_TRY(input.Get<uint64_t>("seed")));
  const auto handle = forward.Sample({last}, Sampler::Multinomial(1.0, 4));
  const Output out = PIE_TRY(co_await forward.Execute());
  const auto drawn = out.TokensAt(handle);
  co_return Json::Object({{"count", drawn.size()}, {"first", out.Token(handle) == drawn.at(0)}});
}

}  // namespace

Cases ForwardCases() {
  return {{"forward", ForwardCase},      {"embedding", EmbeddingCase},
          {"forward_rows", ForwardRows}, {"forward_empty", ForwardEmpty},
          {"forward_mask", ForwardMask}, {"attention_mask", AttentionMask},
          {"input_at", InputAt},         {"draws", Draws}};
}
