// Lets every token attend to the first few tokens and to a window of the latest ones. Models rely
// on their first tokens as a place to rest their attention; with these in sight, a text can go on
// far beyond the window.
#include <inferlet/inferlet.h>

#include <algorithm>

using namespace inferlet;

// The mask of the token at `position` as run lengths: the sink is seen, the middle is not, the
// window is.
std::vector<uint32_t> Mask(uint32_t position, uint32_t sink, uint32_t window) {
  const uint32_t total = position + 1;
  if (total <= sink + window) return {0, total};
  return {0, sink, total - sink - window, window};
}

Task<Result<Json>> Main(Json input) {
  const int sink = PIE_TRY(input.Get("sink", 4));
  const int window = PIE_TRY(input.Get("window", 64));
  const int max_tokens = PIE_TRY(input.Get("max_tokens", 64));
  if (sink < 0 || window < 1) co_return Error("sink must not be negative, and window not below 1");
  const Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  const std::vector<uint32_t> stops = chat::StopTokens(model);
  Context context = PIE_TRY(Context::New(model));
  std::vector<uint32_t> pending = chat::User(model, PIE_TRY(input.Get<std::string>("prompt")));
  pending.append_range(chat::Cue(model));

  std::vector<uint32_t> answer;
  while (answer.size() < static_cast<size_t>(max_tokens)) {
    Forward pass = context.Forward();
    std::vector<std::vector<uint32_t>> masks;
    for (uint32_t i = 0; i < pending.size(); ++i) {
      masks.push_back(Mask(pass.StartPosition() + i, sink, window));
    }
    pass.Input(pending).AttentionMask(masks);
    const SampleHandle last =
        pass.Sample({static_cast<uint32_t>(pending.size() - 1)}, Sampler::Argmax());
    const Output out = PIE_TRY(co_await pass.Execute());
    const uint32_t token = *out.Token(last);
    if (std::ranges::contains(stops, token)) break;
    answer.push_back(token);
    pending = {token};
  }
  co_return PIE_TRY(model.Tokenizer().Decode(answer));
}

PIE_MAIN(Main)
