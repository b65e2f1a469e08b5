// Beam search: keeps the likeliest beginnings of an answer, and extends all of them at once. A
// beginning that is unlikely at first may win in the end, where greedy decoding has left it. Beams
// are forks: they share the pages of what they have in common.
#include <inferlet/inferlet.h>

#include <algorithm>
#include <cmath>

using namespace inferlet;

struct Beam {
  Context context;                // computed up to `pending`
  std::vector<uint32_t> pending;  // to be computed next: the prompt, then one token
  std::vector<uint32_t> text;
  double score = 0;  // log-probability of the text
};

struct Candidate {
  const Beam* from;
  uint32_t token;
  double score;
};

// The likeliest continuations of a beam.
Task<Result<std::vector<Candidate>>> Extend(Beam& beam, uint32_t width) {
  Forward pass = beam.context.Forward();
  pass.Input(beam.pending);
  const auto probe = pass.Probe(beam.pending.size() - 1, Distribution{1, width});
  const Output out = PIE_TRY(co_await pass.Execute());
  const auto [tokens, probabilities] = *out.Distribution(probe);
  std::vector<Candidate> candidates;
  for (size_t i = 0; i < tokens.size(); ++i) {
    candidates.push_back({&beam, tokens[i], beam.score + std::log(probabilities[i])});
  }
  co_return candidates;
}

Task<Result<Json>> Main(Json input) {
  const int width = PIE_TRY(input.Get("width", 4));
  const int max_tokens = PIE_TRY(input.Get("max_tokens", 32));
  if (width < 1) co_return Error("width must be at least 1");
  const Model model = PIE_TRY(Model::Load(runtime::Models().front()));
  const std::vector<uint32_t> stops = chat::StopTokens(model);

  std::vector<uint32_t> prompt = chat::User(model, PIE_TRY(input.Get<std::string>("prompt")));
  prompt.append_range(chat::Cue(model));
  std::vector<Beam> beams;
  beams.push_back({PIE_TRY(Context::New(model)), std::move(prompt), {}, 0});
  std::vector<uint32_t> best;
  double best_score = -INFINITY;
  for (int i = 0; i <= max_tokens && !beams.empty(); ++i) {
    std::vector<Task<Result<std::vector<Candidate>>>> extensions;
    for (Beam& beam : beams) extensions.push_back(Extend(beam, width));
    std::vector<Candidate> all;
    for (auto& some : PIE_TRY(Collect(co_await WhenAll(std::move(extensions))))) {
      all.append_range(some);
    }
    std::ranges::sort(all, std::greater{}, &Candidate::score);

    std::vector<Beam> next;
    for (const Candidate& candidate : all) {
      if (next.size() == static_cast<size_t>(width) || candidate.score <= best_score) break;
      if (std::ranges::contains(stops, candidate.token) || i == max_tokens) {
        best = candidate.from->text;
        best_score = candidate.score;
        continue;
      }
      Beam beam{PIE_TRY(candidate.from->context.Fork()),
                {candidate.token},
                candidate.from->text,
                candidate.score};
      beam.text.push_back(candidate.token);
      next.push_back(std::move(beam));
    }
    beams = std::move(next);
  }
  const std::string text = PIE_TRY(model.Tokenizer().Decode(best));
  co_return Json::Object({{"text", text}, {"logprob", best_score}});
}

PIE_MAIN(Main)
