// Extracts an order from a text. The answer always fits the type.
#include <inferlet/inferlet.h>

#include <array>

using namespace inferlet;

enum class Size { kSmall, kLarge };
constexpr std::array<const char*, 2> EnumTexts(Size) {
  return {"small", "large"};
}

struct Order {
  uint8_t pies = 0;
  Size size = Size::kSmall;
  bool warm = false;
  static constexpr auto kFields = std::tuple(
      Field("pies", &Order::pies), Field("size", &Order::size), Field("warm", &Order::warm));
};

Task<Result<Json>> Main(Json input) {
  const Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  Context context = PIE_TRY(Context::New(model));
  context.System("Answer with the order as JSON.").User(PIE_TRY(input.Get<std::string>("text")));
  const auto temperature = PIE_TRY(input.Get("temperature", 0.0));
  Generator generator = context.Cue().Generate(Sampler::TopP(temperature, 0.95));
  generator.Seed(PIE_TRY(input.Get("seed", 0)));
  generator.MaxTokens(PIE_TRY(input.Get("max_tokens", 400)));
  const Order order = PIE_TRY(co_await generator.CollectJson<Order>());
  co_return Json::Object({{"pies", order.pies},
                          {"size", EnumTexts(order.size)[static_cast<size_t>(order.size)]},
                          {"warm", order.warm}});
}

PIE_MAIN(Main)
