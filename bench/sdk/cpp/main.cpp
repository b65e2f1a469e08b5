// Generates tokens as bench/sdk.py requests, and prints the time that one took.
#include <inferlet/inferlet.h>

#include <chrono>

using namespace inferlet;

// Microseconds a token, of each round.
Task<Result<Json>> Main(Json input) {
  using Clock = std::chrono::steady_clock;
  const Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  const auto tokens = PIE_TRY(input.Get<size_t>("tokens"));
  const auto rounds = PIE_TRY(input.Get<size_t>("rounds"));
  const bool chained = PIE_TRY(input.Get<bool>("chained"));
  Json times = Json::Array();
  for (size_t round = 0; round < rounds; ++round) {
    Context context = PIE_TRY(Context::New(model));
    context.Append({97});
    const auto start = Clock::now();
    Generator generator = context.Generate(Sampler::Argmax());
    generator.MaxTokens(tokens).IgnoreEos();
    if (chained) {
      PIE_TRY(co_await generator.CollectTokens());
    } else {
      while (auto step = PIE_TRY(generator.Next())) PIE_TRY(co_await step->Execute());
    }
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    times.Append(took.count() / static_cast<double>(tokens));
  }
  co_return times;
}
PIE_MAIN(Main)
