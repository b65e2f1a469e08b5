// Several answers to one prompt: the prompt is computed once, its forks share the pages and run at
// once.
#include <inferlet/inferlet.h>

using namespace inferlet;

Task<Result<Json>> Main(Json input) {
  const std::string prompt = PIE_TRY(input.Get("prompt", "Tell me about pie."));
  const int n = PIE_TRY(input.Get("n", 4));
  const int max_tokens = PIE_TRY(input.Get("max_tokens", 32));

  Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  Context prefix = PIE_TRY(Context::New(model));
  prefix.System("You are a helpful assistant.").User(prompt);
  PIE_TRY(co_await prefix.Flush());

  std::vector<Task<Result<std::string>>> answers;
  for (int i = 0; i < n; ++i) {
    Context fork = PIE_TRY(prefix.Fork());
    answers.push_back(
        fork.Cue().Generate(Sampler::TopP(0.8, 0.95)).MaxTokens(max_tokens).CollectText());
  }
  co_return PIE_TRY(Collect(co_await WhenAll(std::move(answers))));
}

PIE_MAIN(Main)
