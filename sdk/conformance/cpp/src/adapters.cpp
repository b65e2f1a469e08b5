// Cases about adapters and zeroth-order tuning.
#include <optional>

#include "cases.h"

using namespace inferlet;

namespace {

Task<Result<std::vector<uint32_t>>> Generate(const Json& input, std::optional<Adapter> adapter = {},
                                             std::optional<int64_t> seed = {}) {
  Context context = PIE_TRY(Context::New(PIE_TRY(FirstModel())));
  context.User(PIE_TRY(input.Get<std::string>("prompt"))).Cue();
  Generator generator = context.Generate(Sampler::Argmax());
  generator.MaxTokens(PIE_TRY(input.Get<size_t>("max_tokens")));
  if (adapter) generator.Adapter(*adapter);
  if (seed) generator.ZoSeed(*seed);
  co_return PIE_TRY(co_await generator.CollectTokens());
}

Task<Result<Json>> AdapterCase(const Json& input) {
  Model model = PIE_TRY(FirstModel());
  for (const char* name : {"conformance", "conformance-copy", "conformance-import"}) {
    if (const auto old = PIE_TRY(Adapter::Open(model, name))) PIE_TRY(old->Destroy());
  }
  const Adapter made = PIE_TRY(Adapter::Create(model, "conformance"));
  PIE_TRY(zo::Initialize(made, 2, 2.0F, 4, 0.5F, 0.5F));
  const auto plain = PIE_TRY(co_await Generate(input));
  const auto zero = PIE_TRY(co_await Generate(input, made));
  const auto seeded = PIE_TRY(co_await Generate(input, made, 7));
  const auto again = PIE_TRY(co_await Generate(input, made, 7));
  const auto negative = PIE_TRY(co_await Generate(input, made, -7));
  const std::vector<float> scores = {4, 1, 3, 2};
  const std::vector<int64_t> seeds = {7, -7, 8, -8};
  PIE_TRY(zo::Update(made, scores, seeds, 1.0F));
  const auto tuned = PIE_TRY(co_await Generate(input, made));
  const Adapter copy = PIE_TRY(made.Fork("conformance-copy"));
  const auto forked = PIE_TRY(co_await Generate(input, copy));
  const bool opened = PIE_TRY(Adapter::Open(model, "conformance-copy")).has_value();
  const bool taken = !Adapter::Create(model, "conformance");
  const std::vector<float> one_score = {1};
  const std::vector<int64_t> one_seed = {1};
  const bool wrong = !zo::Update(made, one_score, one_seed, 1.0F);
  const bool fork_taken = !made.Fork("conformance-copy");
  const AdapterFiles files = PIE_TRY(made.Export());
  const Adapter imported = PIE_TRY(Adapter::Create(model, "conformance-import"));
  const std::vector<uint8_t> nothing(10);
  const bool bad_import = !imported.Import(files.config, nothing);
  PIE_TRY(imported.Import(files.config, files.tensors));
  const auto exported = PIE_TRY(co_await Generate(input, imported));
  std::vector<std::string> names = PIE_TRY(Adapter::Names(model));
  std::erase_if(names, [](const std::string& name) { return !name.starts_with("conformance"); });
  for (const Adapter& adapter : {made, copy, imported}) PIE_TRY(adapter.Destroy());
  const bool gone = !PIE_TRY(Adapter::Open(model, "conformance")).has_value();
  co_return Json::Object({{"plain", plain},
                          {"seeded", seeded},
                          {"negative", negative},
                          {"tuned", tuned},
                          {"zero_same", zero == plain},
                          {"seed_differs", seeded != plain},
                          {"seed_same", seeded == again},
                          {"tuned_differs", tuned != plain},
                          {"forked_same", forked == tuned},
                          {"opened", opened},
                          {"taken", taken},
                          {"wrong_scores", wrong},
                          {"fork_taken", fork_taken},
                          {"bad_import", bad_import},
                          {"exported_same", exported == tuned},
                          {"names", names},
                          {"gone", gone}});
}

}  // namespace

Cases AdapterCases() {
  return {{"adapter", AdapterCase}};
}
