// {{description}}: it answers HTTP requests. Each request runs in an instance of its own.
#include <inferlet/inferlet.h>

using namespace inferlet;

constexpr size_t kMaxBodyBytes = 1 << 20;

Task<Result<void>> Serve(http::Request request, http::Responder respond) {
  const std::string prompt = PIE_TRY(co_await request.Body(kMaxBodyBytes));
  if (prompt.empty()) co_return co_await respond.Status(400).Send("POST a prompt\n");

  Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  Context context = PIE_TRY(Context::New(model));
  context.User(prompt).Cue();

  // The client sees each word as it comes.
  respond.Header("content-type", "text/plain; charset=utf-8");
  const http::Body body = PIE_TRY(respond.Start());
  chat::Decoder decoder(model);
  Generator answer = context.Generate(Sampler::TopP(0.6, 0.95)).MaxTokens(256);
  while (auto step = PIE_TRY(answer.Next())) {
    const Output output = PIE_TRY(co_await step->Execute());
    const chat::Event event = PIE_TRY(decoder.Feed(output.tokens));
    if (const auto* delta = std::get_if<chat::Delta>(&event)) {
      PIE_TRY(co_await body.Write(delta->text));
    }
  }
  PIE_TRY(co_await body.Write("\n"));
  co_return body.Finish();
}

PIE_HTTP(Serve)
