// Guesses ahead with the words of the prompt: what followed the last token there may follow it
// again.
#include <inferlet/inferlet.h>

#include <algorithm>

using namespace inferlet;

class Lookup : public Speculator {
 public:
  explicit Lookup(std::vector<uint32_t> prompt) : text_(std::move(prompt)) {}

  std::pair<std::vector<uint32_t>, std::vector<uint32_t>> Draft() override {
    std::vector<uint32_t> drafts;
    const size_t last = text_.size() - 1;
    for (size_t found = last; found-- > 0;) {
      if (text_[found] != text_[last]) continue;
      for (size_t i = found + 1; i < std::min(found + 5, last); ++i) drafts.push_back(text_[i]);
      break;
    }
    return {drafts, {}};  // after the sequence
  }
  void Accept(std::span<const uint32_t> accepted) override { text_.append_range(accepted); }

 private:
  std::vector<uint32_t> text_;  // the prompt, and the answer so far
};

Task<Result<Json>> Main(Json input) {
  const Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  Context context = PIE_TRY(Context::New(model));
  context.User(PIE_TRY(input.Get<std::string>("prompt"))).Cue();
  Generator generator = context.Generate(Sampler::Argmax());
  generator.Speculator(std::make_unique<Lookup>(context.Buffer()));
  generator.MaxTokens(PIE_TRY(input.Get("max_tokens", 64)));
  co_return PIE_TRY(co_await generator.CollectText());
}

PIE_MAIN(Main)
