// {{description}}: asks the model one question and returns its answer.
#include <inferlet/inferlet.h>

using namespace inferlet;

// Runs inside the engine. `input` holds the parameters of Pie.toml.
Task<Result<std::string>> Main(Json input) {
  const std::string prompt = PIE_TRY(input.Get("prompt", "Tell me about pie."));
  const int max_tokens = PIE_TRY(input.Get("max_tokens", 64));

  Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  Context context = PIE_TRY(Context::New(model));
  context.System("You are a helpful assistant.").User(prompt).Cue();

  co_return co_await context.Generate(Sampler::TopP(0.6, 0.95))
      .MaxTokens(max_tokens)
      .CollectText();
}

PIE_MAIN(Main)
