#include <algorithm>
#include <memory>

#include "checks.h"

using namespace inferlet;

namespace {

constexpr size_t kLength = 40;  // several pages

Result<Context> Asked() {
  Model model = PIE_TRY_SYNC(Model::Load(runtime::Models().front()));
  Context context = PIE_TRY_SYNC(Context::New(model));
  context.User("Tell me about pie.").Cue();
  return context;
}

struct Log {
  std::vector<uint32_t> accepted;
  uint32_t rolled_back = 0;
  uint32_t drafted = 0;
};

// Drafts the known answer, except that every `wrong_every`th guess is wrong.
class Foresight : public Speculator {
 public:
  Foresight(std::vector<uint32_t> answer, size_t count, size_t wrong_every, Log& log)
      : answer_(std::move(answer)), count_(count), wrong_every_(wrong_every), log_(log) {}

  std::pair<std::vector<uint32_t>, std::vector<uint32_t>> Draft() override {
    std::vector<uint32_t> draft;
    const size_t from = log_.accepted.size();
    for (size_t i = from; i < std::min(from + count_, answer_.size()); ++i) {
      draft.push_back(wrong_every_ > 0 && i % wrong_every_ == 0 ? answer_[i] + 1 : answer_[i]);
    }
    log_.drafted += draft.size();
    return {draft, {}};
  }
  void Accept(std::span<const uint32_t> accepted) override { log_.accepted.append_range(accepted); }
  void Rollback(uint32_t n) override { log_.rolled_back += n; }

 private:
  std::vector<uint32_t> answer_;
  size_t count_;
  size_t wrong_every_;
  Log& log_;
};

// Drafts change neither the tokens nor the context's content.
Task<Result<void>> CheckSpeculation(Faults& faults) {
  Context plain = PIE_TRY(Asked());
  const auto answer =
      PIE_TRY(co_await plain.Generate(Sampler::Argmax()).MaxTokens(kLength).CollectTokens());
  for (const size_t wrong_every : {0, 1, 3, 5}) {
    for (const size_t count : {1, 4, 20}) {
      Log log;
      Context context = PIE_TRY(Asked());
      Generator generator = context.Generate(Sampler::Argmax()).MaxTokens(kLength);
      generator.Speculator(std::make_unique<Foresight>(answer, count, wrong_every, log));
      const auto tokens = PIE_TRY(co_await generator.CollectTokens());
      const std::string what =
          " with " + std::to_string(count) + " drafts, wrong every " + std::to_string(wrong_every);
      faults.Expect(tokens == answer, "tokens" + what);
      faults.Expect(context.SeqLen() == plain.SeqLen(), "length" + what);
      faults.Expect(context.Buffer() == plain.Buffer(), "buffer" + what);
      faults.Expect(log.drafted > 0, "drafts were asked for" + what);
      faults.Expect((log.rolled_back > 0) == (wrong_every > 0), "rollbacks" + what);
    }
  }
  co_return {};
}

// A stop token that is confirmed among drafts leaves the context as it does without drafts.
Task<Result<void>> CheckSpeculatedStop(Faults& faults) {
  Context plain = PIE_TRY(Asked());
  const auto answer =
      PIE_TRY(co_await plain.Generate(Sampler::Argmax()).MaxTokens(kLength).CollectTokens());
  const std::vector<uint32_t> stop = {answer[10]};
  Context stepwise = PIE_TRY(Asked());
  const auto expected = PIE_TRY(
      co_await stepwise.Generate(Sampler::Argmax()).MaxTokens(kLength).Stop(stop).CollectTokens());
  Log log;
  Context context = PIE_TRY(Asked());
  Generator generator = context.Generate(Sampler::Argmax()).MaxTokens(kLength).Stop(stop);
  generator.Speculator(std::make_unique<Foresight>(answer, 6, 0, log));
  faults.Expect(PIE_TRY(co_await generator.CollectTokens()) == expected, "tokens before the stop");
  faults.Expect(context.SeqLen() == stepwise.SeqLen(), "length at the stop");
  faults.Expect(context.Buffer() == stepwise.Buffer(), "buffer at the stop");
  co_return {};
}

// Accepting another token than the sampler chose is the same as having sampled that token.
Task<Result<void>> CheckOverride(Faults& faults) {
  Context context = PIE_TRY(Asked());
  Generator generator = context.Generate(Sampler::Argmax()).MaxTokens(3);
  std::vector<uint32_t> told;
  generator.Constrain([&](std::span<const uint32_t> accepted) -> std::vector<uint32_t> {
    told.append_range(accepted);
    return {};
  });
  std::vector<uint32_t> kept;
  while (auto step = PIE_TRY(generator.Next())) {
    PIE_TRY(co_await step->Execute());
    kept.append_range(generator.Accept({'x', 'y'}));
  }
  faults.Expect(kept == std::vector<uint32_t>{'x', 'y', 'x'}, "the limit cuts what is accepted");
  faults.Expect(told == std::vector<uint32_t>{'x', 'y'}, "constraints hear of the override");
  faults.Expect(generator.TokensGenerated() == 3, "the count");
  faults.Expect(generator.IsDone(), "the end");

  Context expected = PIE_TRY(Asked());
  PIE_TRY(co_await expected.Append({'x', 'y'}).Flush());
  faults.Expect(context.SeqLen() == expected.SeqLen(), "the length");
  faults.Expect(context.Buffer() == std::vector<uint32_t>{'x'}, "the buffer");
  co_return {};
}

Task<Result<void>> CheckPasses(Faults& faults) {
  Context context = PIE_TRY(Asked());
  Forward twice = context.Forward();
  twice.Input({97});
  PIE_TRY(co_await twice.Execute());
  faults.Expect(!(co_await twice.Execute()).has_value(), "a pass executes once");
  Forward mixed = context.Forward();
  mixed.InputAt({97}, {0}).Input({97});
  faults.Expect(!(co_await mixed.Execute()).has_value(), "Input after InputAt");
  faults.Expect(!context.Truncate(1'000).has_value(), "Truncate of too much");
  faults.Expect(context.SeqLen() == 1, "none of this changed the context");

  // A task may outlive the context and the generator that it was made from.
  std::optional<Task<Result<std::vector<uint32_t>>>> task;
  {
    Context gone = PIE_TRY(Asked());
    task = gone.Generate(Sampler::Argmax()).MaxTokens(5).CollectTokens();
  }
  faults.Expect(PIE_TRY(co_await *task).size() == 5, "a task on its own");
  co_return {};
}

// Negative numbers of every type are errors, also when the compiler does not know their values.
Task<Result<void>> CheckNegativeNumbers(Faults& faults) {
  const auto says = [&](const auto& result, const std::string& text) {
    faults.Expect(!result && result.error() == text, text);
  };
  const int64_t negative = -1;
  const std::string what = " must be 0 or more, not -1";
  Context context = PIE_TRY(Asked());
  const auto generate = [&](Sampler sampler = Sampler::Argmax()) {
    return context.Generate(sampler);
  };
  says(co_await generate().MaxTokens(negative).CollectTokens(), "max_tokens" + what);
  says(co_await generate().MaxTokens(negative).CollectText(), "max_tokens" + what);
  says(generate().MaxTokens(static_cast<int8_t>(negative)).Next(), "max_tokens" + what);
  says(generate().Horizon(negative).Next(), "horizon" + what);
  says(generate(Sampler::TopK(1, negative)).Next(), "k" + what);
  says(generate(Sampler::TopKTopP(1, negative, 1)).Next(), "k" + what);
  says(generate(Sampler::Multinomial(1, negative)).Next(), "draws" + what);
  says(context.Truncate(negative), "n" + what);
  Forward forward = context.Forward();
  forward.Input({97}).Mask({0, 200});
  (void)forward.Sample({0}, Sampler::TopK(1, negative));
  says(co_await forward.Execute(), "k" + what);
  const Grammar grammar = PIE_TRY(Grammar::FromRegex("a+"));
  Matcher matcher = PIE_TRY(Matcher::New(grammar, context.Model().Tokenizer()));
  PIE_TRY(matcher.AcceptTokens({97, 97}));
  says(matcher.Rollback(negative), "tokens" + what);
  PIE_TRY(matcher.Rollback(size_t{2}));
  // Large numbers are no limit.
  auto few = generate().MaxTokens(UINT64_MAX).Horizon(INT64_MAX).Stop({98, 99}).AddStop({100});
  const auto mask = brle::Allow({97, 98});
  faults.Expect(
      PIE_TRY(co_await few.LogitMask(mask).MaxTokens(uint8_t{3}).CollectTokens()).size() <= 3,
      "a limit of any type");
  co_return {};
}

class Silent : public Speculator {
 public:
  std::pair<std::vector<uint32_t>, std::vector<uint32_t>> Draft() override { return {}; }
  void Accept(std::span<const uint32_t>) override {}
};

Task<Result<void>> CheckTwoDrafters(Faults& faults) {
  Context context = PIE_TRY(Asked());
  Generator both = context.Generate(Sampler::Argmax()).MaxTokens(2).SystemSpeculation();
  both.Speculator(std::make_unique<Silent>());
  const auto refused = co_await both.CollectTokens();
  faults.Expect(!refused && refused.error() ==
                                "speculator and system_speculation exclude each other: choose one",
                "two drafters");
  co_return {};
}

// Checks the error for a tool whose schema cannot be enforced, and tools that are listed in braces.
Task<Result<void>> CheckTools(Faults& faults) {
  const std::string wrong = R"({"name": "add", "parameters": {"type": "object", "properties": 7}})";
  const std::string right =
      R"({"name": "add", "parameters": {"type": "object", "properties": {}}})";
  Context context = PIE_TRY(Asked());
  const Model& model = context.Model();
  const auto refused = tools::TryNativeMatcher(model, {wrong});
  faults.Expect(!refused && !refused.error().empty(), "a wrong schema");
  const auto no_grammar = tools::TryNativeGrammar(model, {wrong});
  faults.Expect(!no_grammar && no_grammar.error() == refused.error(), "a wrong schema's grammar");
  faults.Expect(PIE_TRY(tools::TryNativeMatcher(model, {right, right})).has_value(), "two tools");
  faults.Expect(!PIE_TRY(tools::TryNativeMatcher(model, {})).has_value(), "no tools");
  faults.Expect(!tools::NativeMatcher(model, {}).has_value(), "no tools");
  faults.Expect(tools::NativeGrammar(model, {right}).has_value(), "a grammar");
  Context fresh = PIE_TRY(Context::New(model));
  PIE_TRY(fresh.EquipTools({right, right}));
  faults.Expect(!fresh.Buffer().empty(), "equipped");
  fresh.AssistantCalls("", {{"add", "{}"}}).Append({97});
  PIE_TRY(co_await fresh.Flush());
  chat::Decoder decoder(model);
  const chat::Event event = PIE_TRY(decoder.Feed({97, 98}));
  faults.Expect(std::holds_alternative<chat::Delta>(event), "Feed of a list");
  faults.Expect(PIE_TRY(model.Tokenizer().Decode({97, 98})) == "ab", "Decode of a list");
  co_return {};
}

void CheckMasks(Faults& faults) {
  using Mask = std::vector<uint32_t>;
  faults.Expect(brle::Allow({5, 3, 4, 4, 9}) == Mask{3, 3, 3, 1}, "Allow");
  faults.Expect(brle::Allow({0}) == Mask{0, 1}, "Allow the first");
  faults.Expect(brle::Allow({}).size() == 1, "Allow nothing is no empty mask");
  faults.Expect(brle::Intersect(Mask{}, Mask{1, 2}) == Mask{1, 2}, "an empty mask");
  faults.Expect(brle::AllowsNone(Mask{7}) && brle::AllowsNone(Mask{3, 0, 4}), "AllowsNone");
  faults.Expect(!brle::AllowsNone(Mask{}) && !brle::AllowsNone(Mask{0, 1}), "AllowsNone of some");
  faults.Expect(brle::Intersect(Mask{2, 4}, Mask{0, 3, 1, 9}) == Mask{2, 1, 1, 2}, "Intersect");
}

}  // namespace

Task<Result<void>> CheckGenerators(Faults& faults) {
  CheckMasks(faults);
  PIE_TRY(co_await CheckSpeculation(faults));
  PIE_TRY(co_await CheckSpeculatedStop(faults));
  PIE_TRY(co_await CheckOverride(faults));
  PIE_TRY(co_await CheckPasses(faults));
  PIE_TRY(co_await CheckNegativeNumbers(faults));
  PIE_TRY(co_await CheckTwoDrafters(faults));
  PIE_TRY(co_await CheckTools(faults));
  co_return {};
}
