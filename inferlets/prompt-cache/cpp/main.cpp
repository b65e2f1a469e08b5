// Answers questions about a document. The document is computed once and saved under a name. Later
// runs, also after a restart of the engine, open the snapshot and compute nothing but the question.
#include <inferlet/inferlet.h>

using namespace inferlet;

Task<Result<Json>> Main(Json input) {
  const std::string name = PIE_TRY(input.Get<std::string>("name"));
  const std::string document = PIE_TRY(input.Get<std::string>("document"));
  const Model model = PIE_TRY(Model::Load(runtime::Models().front()));

  Result<Context> saved = Context::Open(model, name);
  if (!saved && !saved.error().contains("no snapshot")) co_return Error(saved.error());
  Context context = saved ? *std::move(saved) : PIE_TRY(Context::New(model));
  const uint32_t reused = context.SeqLen();
  if (reused == 0) {
    context.System("Answer questions about this document.\n\n" + document);
    PIE_TRY(co_await context.Flush());
    PIE_TRY(context.Save(name));
  }
  context.User(PIE_TRY(input.Get<std::string>("question"))).Cue();
  Generator generator = context.Generate(Sampler::Argmax());
  generator.MaxTokens(PIE_TRY(input.Get("max_tokens", 128)));
  const std::string answer = PIE_TRY(co_await generator.CollectText());
  co_return Json::Object({{"answer", answer}, {"reused", reused}});
}

PIE_MAIN(Main)
