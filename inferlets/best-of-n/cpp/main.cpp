// Draws several answers to one prompt and returns the likeliest. The prompt is computed once. One
// pass over the tokens of an answer reads how likely each of them was.
#include <inferlet/inferlet.h>

#include <algorithm>

using namespace inferlet;

struct Answer {
  std::string text;
  double score = 0;  // the mean log-probability of its tokens
};

Task<Result<Answer>> Draw(const Model& model, const Context& prefix, int max_tokens) {
  Context context = PIE_TRY(prefix.Fork());
  Generator generator = context.Cue().Generate(Sampler::TopP(1, 0.95)).MaxTokens(max_tokens);
  const std::vector<uint32_t> tokens = PIE_TRY(co_await generator.CollectTokens());

  const std::vector<uint32_t> cue = chat::Cue(model);
  Context judge = PIE_TRY(prefix.Fork());
  Forward pass = judge.Forward();
  pass.Input(cue).Input(tokens);
  std::vector<ProbeHandle<Logprob>> probes;
  uint32_t row = cue.size() - 1;  // the last row of the cue predicts the first token
  for (const uint32_t token : tokens) probes.push_back(pass.Probe(row++, Logprob{token}));
  const Output out = PIE_TRY(co_await pass.Execute());
  double sum = 0;
  for (const auto& probe : probes) sum += out.Logprobs(probe)->front();
  const double count = std::max<size_t>(tokens.size(), 1);
  const std::string text = PIE_TRY(model.Tokenizer().Decode(tokens));
  co_return Answer{text, sum / count};
}

Task<Result<Json>> Main(Json input) {
  const int n = PIE_TRY(input.Get("n", 8));
  const int max_tokens = PIE_TRY(input.Get("max_tokens", 64));
  if (n < 1) co_return Error("n must be at least 1");
  const Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  Context prefix = PIE_TRY(Context::New(model));
  prefix.User(PIE_TRY(input.Get<std::string>("prompt")));
  PIE_TRY(co_await prefix.Flush());

  std::vector<Task<Result<Answer>>> draws;
  for (int i = 0; i < n; ++i) draws.push_back(Draw(model, prefix, max_tokens));
  const std::vector<Answer> answers = PIE_TRY(Collect(co_await WhenAll(std::move(draws))));
  const Answer& best = *std::ranges::max_element(answers, {}, &Answer::score);
  co_return Json::Object({{"text", best.text}, {"score", best.score}});
}

PIE_MAIN(Main)
