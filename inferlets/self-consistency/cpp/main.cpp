// Asks the same several times and returns the result that most of the answers agree on. What an
// answer thinks before its last word does not count.
#include <inferlet/inferlet.h>

#include <algorithm>
#include <cctype>
#include <map>

using namespace inferlet;

// The last word of a text, without punctuation.
std::string ResultOf(std::string_view text) {
  const auto is_word = [](unsigned char c) { return std::isalnum(c) != 0 || c >= 0x80; };
  const auto end = std::find_if(text.rbegin(), text.rend(), is_word);
  const auto begin = std::find_if_not(end, text.rend(), is_word);
  return std::string(begin.base(), end.base());
}

Task<Result<Json>> Main(Json input) {
  const int n = PIE_TRY(input.Get("n", 9));
  const int max_tokens = PIE_TRY(input.Get("max_tokens", 128));
  if (n < 1) co_return Error("n must be at least 1");
  const Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  Context prefix = PIE_TRY(Context::New(model));
  prefix.System("Think step by step. The last word of your answer is the result.");
  prefix.User(PIE_TRY(input.Get<std::string>("prompt")));
  PIE_TRY(co_await prefix.Flush());

  std::vector<Task<Result<std::string>>> answers;
  for (int i = 0; i < n; ++i) {
    Context fork = PIE_TRY(prefix.Fork());
    answers.push_back(
        fork.Cue().Generate(Sampler::TopP(0.8, 0.95)).MaxTokens(max_tokens).CollectText());
  }
  std::map<std::string, int> votes;
  for (const std::string& text : PIE_TRY(Collect(co_await WhenAll(std::move(answers))))) {
    ++votes[ResultOf(text)];
  }
  const auto best =
      std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
  co_return Json::Object({{"answer", best->first}, {"votes", best->second}});
}

PIE_MAIN(Main)
