// Cases about speculation: the same tokens in fewer passes.
#include "constraints.h"

using namespace inferlet;

namespace {

// Drafts what is known to come, with a mistake at every third place, and notes its calls.
class Drafter : public Speculator {
 public:
  Drafter(Tokens truth, size_t n, std::shared_ptr<Json> calls)
      : truth_(std::move(truth)), n_(n), calls_(std::move(calls)) {}

  std::pair<Tokens, Tokens> Draft() override {
    Tokens ahead;
    for (size_t i = at_; i < truth_.size() && i < at_ + n_; ++i) {
      ahead.push_back(i % 3 != 2 ? truth_[i] : truth_[i] ^ 1);
    }
    calls_->Append(Json::Array({"draft", ahead.size()}));
    return {ahead, {}};
  }
  void Accept(std::span<const uint32_t> accepted) override {
    at_ += accepted.size();
    calls_->Append(Json::Array({"accept", accepted.size()}));
  }
  void Rollback(uint32_t n) override { calls_->Append(Json::Array({"rollback", n})); }
  void Reset() override { calls_->Append(Json::Array({"reset"})); }

 private:
  Tokens truth_;
  size_t n_;
  size_t at_ = 0;
  std::shared_ptr<Json> calls_;
};

// Drafts what is known to come, at positions that are `shift` too high, `missing` too few.
struct Placement {
  std::optional<uint32_t> shift;
  size_t missing = 0;
};
class Placed : public Speculator {
 public:
  Placed(Tokens truth, uint32_t start, size_t n, Placement placement, std::shared_ptr<int> drafts)
      : truth_(std::move(truth)),
        start_(start),
        n_(n),
        placement_(placement),
        drafts_(std::move(drafts)) {}

  std::pair<Tokens, Tokens> Draft() override {
    ++*drafts_;
    Tokens ahead, positions;
    for (size_t i = at_; i < truth_.size() && i < at_ + n_; ++i) {
      ahead.push_back(truth_[i]);
      if (placement_.shift) positions.push_back(start_ + i + *placement_.shift);
    }
    if (!positions.empty()) positions.resize(positions.size() - placement_.missing);
    return {ahead, positions};
  }
  void Accept(std::span<const uint32_t> accepted) override { at_ += accepted.size(); }

 private:
  Tokens truth_;
  uint32_t start_;
  size_t n_;
  Placement placement_;
  std::shared_ptr<int> drafts_;
  size_t at_ = 0;
};

// The tokens, and how often was drafted.
using Run = std::pair<Tokens, int>;
Task<Result<Run>> RunPlaced(const Json& input, Tokens truth, Placement placement) {
  Context context = PIE_TRY(Context::New(PIE_TRY(FirstModel())));
  context.User(PIE_TRY(input.Get<std::string>("prompt"))).Cue();
  const auto drafts = std::make_shared<int>(0);
  const auto n = PIE_TRY(input.Get<size_t>("n"));
  Generator generator = context.Generate(Sampler::Argmax());
  generator.MaxTokens(PIE_TRY(input.Get<size_t>("max_tokens")));
  if (!truth.empty()) {
    const uint32_t start = context.Buffer().size();
    generator.Speculator(std::make_unique<Placed>(std::move(truth), start, n, placement, drafts));
  }
  Tokens tokens = PIE_TRY(co_await generator.CollectTokens());
  co_return Run(std::move(tokens), *drafts);
}

Task<Result<Json>> DraftPositions(const Json& input) {
  const Tokens truth = PIE_TRY(co_await RunPlaced(input, {}, {})).first;
  const Run none = PIE_TRY(co_await RunPlaced(input, truth, {}));
  const Run right = PIE_TRY(co_await RunPlaced(input, truth, {.shift = 0}));
  const Run wrong = PIE_TRY(co_await RunPlaced(input, truth, {.shift = 7}));
  const Result<Run> mismatch = co_await RunPlaced(input, truth, {.shift = 0, .missing = 1});
  co_return Json::Object({{"same", none.first == truth && right.first == truth},
                          {"same_calls", none.second == right.second},
                          {"wrong_differs", wrong != right},
                          {"wrong", wrong.first},
                          {"mismatch", !mismatch.has_value()}});
}

Result<Generator> Constrained(Context& context, const Json& input) {
  Generator generator = PIE_TRY_SYNC(Drawn(context, input));
  if (!PIE_TRY_SYNC(input.Get<std::string>("kind")).empty()) {
    generator.Constrain(PIE_TRY_SYNC(ConstraintOf(input)));
  }
  return generator;
}

Task<Result<Json>> Speculate(const Json& input) {
  Context context = PIE_TRY(AskedContext(input)), other = PIE_TRY(AskedContext(input));
  Generator plain = PIE_TRY(Constrained(context, input));
  const Tokens truth = PIE_TRY(co_await plain.CollectTokens());
  const auto calls = std::make_shared<Json>(Json::Array());
  Generator drafted = PIE_TRY(Constrained(other, input));
  const auto n = PIE_TRY(input.Get<size_t>("n"));
  drafted.Speculator(std::make_unique<Drafter>(truth, n, calls));
  const bool same = PIE_TRY(co_await drafted.CollectTokens()) == truth;
  co_return Json::Object(
      {{"tokens", truth},
       {"same", same},
       {"same_state", GenerationState(other, drafted) == GenerationState(context, plain)},
       {"calls", *calls}});
}

// The tokens, what the probes read at each of them, and the number of steps.
struct Read {
  Tokens tokens;
  std::vector<std::pair<float, float>> probes;
  int steps = 0;
};
Task<Result<Read>> ReadSteps(Generator generator) {
  Read read;
  const auto each = generator.ProbeEachStep(0, Entropy{});
  while (auto step = PIE_TRY(generator.Next())) {
    const auto own = step->Probe(0, Logprob{97});
    const Output out = PIE_TRY(co_await step->Execute());
    ++read.steps;
    for (uint32_t i = 0; i < out.tokens.size(); ++i) {
      read.tokens.push_back(out.tokens[i]);
      const auto entropy = out.Entropy(each.At(i));
      const auto logprobs = out.Logprobs(own.At(i));
      if (!entropy || !logprobs) co_return Error("a probe has no answer");
      read.probes.emplace_back(*entropy, logprobs->front());
    }
  }
  co_return read;
}

Task<Result<Json>> SpeculateProbed(const Json& input) {
  Context context = PIE_TRY(AskedContext(input)), other = PIE_TRY(AskedContext(input));
  const Read plain = PIE_TRY(co_await ReadSteps(PIE_TRY(Drawn(context, input))));
  Generator drafting = PIE_TRY(Drawn(other, input));
  const auto n = PIE_TRY(input.Get<size_t>("n"));
  const auto calls = std::make_shared<Json>(Json::Array());
  drafting.Speculator(std::make_unique<Drafter>(plain.tokens, n, calls));
  const Read drafted = PIE_TRY(co_await ReadSteps(drafting));
  Json probes = Json::Array();
  for (const auto& [entropy, logprob] : plain.probes) {
    probes.Append(Json::Array({entropy, logprob}));
  }
  co_return Json::Object({{"tokens", plain.tokens},
                          {"probes", probes},
                          {"same", drafted.tokens == plain.tokens},
                          {"same_probes", drafted.probes == plain.probes},
                          {"steps", drafted.steps}});
}

Task<Result<Json>> System(const Json& input) {
  Context context = PIE_TRY(AskedContext(input)), a = PIE_TRY(AskedContext(input)),
          b = PIE_TRY(AskedContext(input));
  Generator plain = PIE_TRY(Drawn(context, input));
  const Tokens truth = PIE_TRY(co_await plain.CollectTokens());
  const Json state = GenerationState(context, plain);
  Generator chained = PIE_TRY(Drawn(a, input)).SystemSpeculation();
  const bool same = PIE_TRY(co_await chained.CollectTokens()) == truth;
  Generator stepped = PIE_TRY(Drawn(b, input)).SystemSpeculation();
  Tokens tokens;
  while (auto step = PIE_TRY(stepped.Next())) {
    tokens.append_range(PIE_TRY(co_await step->Execute()).tokens);
  }
  co_return Json::Object(
      {{"same", same && GenerationState(a, chained) == state},
       {"same_stepped", tokens == truth && GenerationState(b, stepped) == state}});
}

}  // namespace

Cases SpeculationCases() {
  return {{"draft_positions", DraftPositions},
          {"speculate", Speculate},
          {"speculate_probed", SpeculateProbed},
          {"system_speculation", System}};
}
