// One chat turn: every piece of text is sent to the client as it comes, the whole is returned.
#include <inferlet/inferlet.h>

using namespace inferlet;

Task<Result<Json>> Main(Json input) {
  const std::string prompt = PIE_TRY(input.Get<std::string>("prompt"));
  const int max_tokens = PIE_TRY(input.Get("max_tokens", 256));
  const double temperature = PIE_TRY(input.Get("temperature", 0.6));
  const std::string system = PIE_TRY(input.Get("system", "You are a helpful assistant."));

  Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  Context context = PIE_TRY(Context::New(model));
  context.System(system).User(prompt).Cue();

  const Sampler sampler = Sampler::TopP(temperature, 0.95);
  Generator generator = context.Generate(sampler).MaxTokens(max_tokens);
  chat::Decoder decoder(model);
  std::string text;
  while (auto step = PIE_TRY(generator.Next())) {
    const Output out = PIE_TRY(co_await step->Execute());
    const chat::Event event = PIE_TRY(decoder.Feed(out.tokens));
    if (const auto* delta = std::get_if<chat::Delta>(&event)) {
      session::Send(delta->text);
      text += delta->text;
    }
  }
  co_return text;
}

PIE_MAIN(Main)
