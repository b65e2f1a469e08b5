// pie-structured-bench: measures what grammars and drafts cost and gain. Chains run on the engine's
// scheduler and the CPU device, without a guest. Prints one flat JSON object.
//
//   pie-structured-bench --model FILE [--threads 2] [--rounds 12] chains
//   pie-structured-bench --model FILE masks      the time of each mask, for the comparison of peers
//   pie-structured-bench --model FILE json       JSON-constrained tokens a second, for the same
//
// All figures of `chains` are ratios of times per token that are measured in turn in one process;
// the median of the rounds counts.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/work_queue.h"
#include "host/matcher_rules.h"
#include "must.h"
#include "sched/scheduler.h"
#include "sched/suffix_drafter.h"
#include "speech/grammar.h"
#include "speech/open_model.h"
#include "speech/turn.h"
#include "structured_texts.h"

namespace pie {
namespace {

using Clock = std::chrono::steady_clock;
using Tokens = std::vector<uint32_t>;

struct Options {
  std::string model;
  uint32_t threads = 2;
  uint32_t rounds = 12;
  bool show = false;  // the texts, to the standard error
};

double Median(std::vector<double> values) {
  std::ranges::sort(values);
  return values.empty() ? 0 : values[values.size() / 2];
}

double Seconds(Clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Matchers without forced tokens: every token is sampled.
class WithoutJumps final : public TokenRules {
 public:
  explicit WithoutJumps(std::shared_ptr<TokenRules> rules) : rules_(std::move(rules)) {}
  Result<bool> Accept(uint32_t token) override { return rules_->Accept(token); }
  Tokens Forced(uint32_t) override { return {}; }
  void Prepare(Tokens& draft) override { rules_->Prepare(draft); }
  TokenMasks& masks() override { return rules_->masks(); }

 private:
  std::shared_ptr<TokenRules> rules_;
};

struct Kind {
  const Grammar* grammar = nullptr;  // null: free
  bool jump = true;
  bool speculate = false;
  float temperature = 0;
  bool stop = false;  // at the end of the model's turn
};

class Chains {
 public:
  explicit Chains(const Options& options)
      : model_(Must(OpenModel(options.model, "default"))),
        vocabulary_(model_),
        scheduler_(Must(MakeCpuBackend(options.model, {.threads = options.threads})),
                   SchedulerOptions{}),
        show_(options.show) {
    stops_ = model_.chat->stop_tokens();
    std::ranges::sort(stops_);
  }

  // Runs one chain for each prompt at the same time. Returns the seconds per token, from the first
  // token to the last.
  double Run(const std::vector<Tokens>& prompts, uint32_t tokens, const Kind& kind) {
    const SchedulerStats before = stats();
    State state;
    state.chains = state.running = prompts.size();
    std::vector<SequenceId> sequences;
    for (size_t i = 0; i < prompts.size(); ++i) {
      sequences.push_back(scheduler_.Create());
      scheduler_.Execute(MakeForward(sequences.back(), prompts[i], tokens, kind, i, state));
    }
    std::unique_lock lock(state.mutex);
    state.changed.wait(lock, [&] { return state.running == 0; });
    for (const SequenceId sequence : sequences) scheduler_.Drop(sequence);
    scheduler_.WaitIdle(60'000);
    if (!state.error.empty()) {
      fmt::print(stderr, "pie-structured-bench: {}\n", state.error);
      std::exit(1);
    }
    if (show_) {
      const SchedulerStats now = stats();
      fmt::print(stderr, "{} of {} drafts were right: {}\n", now.confirmed - before.confirmed,
                 now.drafted - before.drafted, Must(model_.tokenizer->Decode(state.tokens)));
    }
    const auto timed = static_cast<double>(state.given - state.given_at_start);
    return Seconds(state.end - *state.start) / timed;
  }

  Tokens Ask(std::string_view text) const {
    const Turn turns[] = {MakeTurn(TurnKind::User, text), MakeTurn(TurnKind::Cue)};
    return Must(model_.chat->Extend({}, turns));
  }
  Model& model() { return model_; }
  const GrammarVocabulary& vocabulary() const { return vocabulary_; }
  SchedulerStats stats() const { return scheduler_.stats(); }

 private:
  // Of the chains of one run.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    size_t chains = 0;
    size_t running = 0;
    size_t begun = 0;
    Tokens tokens;  // of all chains, as they came
    uint64_t given = 0;
    uint64_t given_at_start = 0;
    std::optional<Clock::time_point> start;  // when all have begun
    Clock::time_point end;
    std::string error;
  };

  Forward MakeForward(SequenceId sequence, const Tokens& prompt, uint32_t tokens, const Kind& kind,
                      size_t index, State& state) {
    Forward forward{.sequence = sequence, .tokens = prompt};
    for (uint32_t i = 0; i < prompt.size(); ++i) forward.positions.push_back(i);
    forward.samples.push_back({.kind = SampleSpec::Kind::kTopP,
                               .temperature = kind.temperature,
                               .p = 0.95F,
                               .rows = {static_cast<uint32_t>(prompt.size()) - 1}});
    forward.seed = index + 1;
    forward.chain = std::make_unique<Chain>();
    forward.chain->max_tokens = tokens;
    forward.chain->speculate = kind.speculate;
    if (kind.stop) forward.chain->stops = stops_;
    forward.chain->seed = [index](uint32_t step) { return (index + 1) * 100'000 + step; };
    forward.chain->give = [&state, first = true](uint32_t token,
                                                 std::optional<Chain::End>) mutable {
      const std::lock_guard lock(state.mutex);
      ++state.given;
      state.tokens.push_back(token);
      if (std::exchange(first, false) && ++state.begun == state.chains) {
        state.start = Clock::now();
        state.given_at_start = state.given;
      }
    };
    forward.done = [&state](Result<std::vector<Slot>> result) {
      const std::lock_guard lock(state.mutex);
      if (!result) state.error = result.error().text;
      // When the first sequence has ended, the batch is smaller, so later steps do not count.
      if (state.end == Clock::time_point()) state.end = Clock::now();
      --state.running;
      state.changed.notify_all();
    };
    if (kind.grammar != nullptr) {
      std::vector<host::MatcherRules::Named> matchers;
      matchers.push_back({Must(Matcher::Make(vocabulary_, *kind.grammar)), "the benchmark's"});
      forward.rules = std::make_shared<host::MatcherRules>(
          std::move(matchers), Brle(), scheduler_.info().vocab_size,
          host::MatcherRules::Owner{.user = "bench",
                                    .masks = host::MatcherRules::ThreadPays() ? &masks_ : nullptr});
      if (!kind.jump) forward.rules = std::make_shared<WithoutJumps>(std::move(forward.rules));
      Tokens no_draft;
      forward.rules->Prepare(no_draft);
    }
    return forward;
  }

  Model model_;
  GrammarVocabulary vocabulary_;
  Scheduler scheduler_;
  const bool show_;
  Tokens stops_;
  WorkQueue masks_{"pie-masks", 1, 4'096};
};

// The time per token of `a` ÷ that of `b` in each round, measured in turn.
std::vector<double> Ratios(uint32_t rounds, const std::function<double()>& a,
                           const std::function<double()>& b) {
  std::vector<double> ratios;
  a();
  b();
  for (uint32_t i = 0; i < rounds; ++i) {
    // The order alternates, so that a change of the machine's speed affects both.
    const double first = i % 2 == 0 ? a() : b();
    const double second = i % 2 == 0 ? b() : a();
    ratios.push_back(i % 2 == 0 ? first / second : second / first);
  }
  return ratios;
}

double Ratio(uint32_t rounds, const std::function<double()>& a, const std::function<double()>& b) {
  return Median(Ratios(rounds, a, b));
}

nlohmann::ordered_json MeasureChains(const Options& options) {
  Chains chains(options);
  nlohmann::ordered_json out;
  const Grammar records = Must(Grammar::FromJsonSchema(kRecords));
  const Grammar long_keys = Must(Grammar::FromJsonSchema(kLongKeys));
  Must(chains.vocabulary().Compile(records));
  Must(chains.vocabulary().Compile(long_keys));
  constexpr uint32_t kTokens = 64;
  const Tokens ask = chains.Ask(kAskForRecords);
  for (const uint32_t batch : {1U, 16U}) {
    const std::vector<Tokens> prompts(batch, ask);
    out[fmt::format("json_tpot_ratio_b{}", batch)] = Ratio(
        options.rounds,
        [&] { return chains.Run(prompts, kTokens, {.grammar = &records, .jump = false}); },
        [&] { return chains.Run(prompts, kTokens, {}); });
  }
  out["json_jump_ratio"] = Ratio(
      options.rounds, [&] { return chains.Run({ask}, kTokens, {.grammar = &long_keys}); },
      [&] { return chains.Run({ask}, kTokens, {}); });

  std::vector<Tokens> copies;
  for (const char* text : kCopyPrompts) copies.push_back(chains.Ask(text));
  // The time with drafts ÷ that without, of each round.
  const auto drafted = [&](const std::vector<Tokens>& prompts, float temperature) {
    const auto run = [&](bool speculate) {
      return [&, speculate] {
        return chains.Run(prompts, 2 * kTokens,
                          {.speculate = speculate, .temperature = temperature, .stop = true});
      };
    };
    return Ratios(options.rounds, run(true), run(false));
  };
  std::vector<double> single;
  for (const Tokens& prompt : copies) single.push_back(1 / Median(drafted({prompt}, 0)));
  out["spec_copy_b1"] = Median(single);
  std::vector<Tokens> eight;
  for (size_t i = 0; i < 8; ++i) eight.push_back(copies[i % copies.size()]);
  out["spec_copy_b8"] = 1 / Median(drafted(eight, 0));
  const SchedulerStats before = chains.stats();
  std::vector<double> adverse;
  for (const char* text : kAdversePrompts) {
    const std::vector<double> ratios = drafted({chains.Ask(text)}, 1.0F);
    adverse.insert(adverse.end(), ratios.begin(), ratios.end());
  }
  out["spec_adverse_b1"] = 1 / Median(adverse);
  const SchedulerStats stats = chains.stats();
  out["spec_adverse_drafted"] = stats.drafted - before.drafted;
  out["spec_adverse_confirmed"] = stats.confirmed - before.confirmed;
  out["spec_confirmed_share"] = static_cast<double>(stats.confirmed) /
                                static_cast<double>(std::max<uint64_t>(stats.drafted, 1));
  return out;
}

// Tokens a second of one generation that a JSON schema holds, and the prompt that it follows.
nlohmann::ordered_json MeasureJson(const Options& options) {
  Chains chains(options);
  const Grammar records = Must(Grammar::FromJsonSchema(kRecords));
  Must(chains.vocabulary().Compile(records));
  const Tokens ask = chains.Ask(kAskForRecords);
  std::vector<double> tps;
  for (uint32_t i = 0; i <= options.rounds; ++i) {
    const double seconds = chains.Run({ask}, 64, {.grammar = &records});
    if (i > 0) tps.push_back(1 / seconds);  // the first run warms the caches up
  }
  return {{"tps", Median(tps)}, {"prompt", ask}};
}

// The bytes of each token, none of special ones.
nlohmann::ordered_json VocabularyOf(const Model& model) {
  std::vector<std::string> tokens;
  for (uint32_t id = 0; id < model.tokenizer->vocab_size(); ++id) {
    std::string& hex = tokens.emplace_back();
    for (const unsigned char byte : model.tokenizer->Bytes(id)) hex += fmt::format("{:02x}", byte);
  }
  return {{"tokens", tokens}, {"stops", model.chat->stop_tokens()}};
}

// For each grammar: its compile times, and the time of each mask along a document. The peers
// (peers/grammars_driver.py) follow the same tokens of the same vocabulary.
nlohmann::ordered_json MeasureMasks(const Options& options) {
  const Model model = Must(OpenModel(options.model, "default"));
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  GrammarVocabulary warmed(model);
  Must(warmed.Compile(Must(Grammar::Json())));
  for (const MaskCase& mask_case : kMaskCases) {
    const Grammar grammar = mask_case.is_schema ? Must(Grammar::FromJsonSchema(mask_case.source))
                                                : Must(Grammar::FromRegex(mask_case.source));
    const auto cold = Clock::now();
    Must(warmed.Compile(grammar));
    const double cold_ms = Seconds(Clock::now() - cold) * 1e3;
    const Tokens tokens = Must(model.tokenizer->Encode(mask_case.document));
    std::vector<double> times, accepts, forced;
    constexpr uint32_t kWalks = 20;
    for (uint32_t walk = 0; walk < kWalks; ++walk) {
      Matcher matcher = Must(Matcher::Make(warmed, grammar));
      for (const uint32_t token : tokens) {
        const auto start = Clock::now();
        Must(matcher.MaskBits());
        const auto made = Clock::now();
        Must(matcher.Accept({&token, 1}));
        times.push_back(Seconds(made - start) * 1e6);
        accepts.push_back(Seconds(Clock::now() - made) * 1e6);
      }
    }
    // Apart from the others, because a mask that follows from forced tokens is kept with them.
    for (uint32_t walk = 0; walk < kWalks; ++walk) {
      Matcher matcher = Must(Matcher::Make(warmed, grammar));
      for (const uint32_t token : tokens) {
        Must(matcher.Accept({&token, 1}));
        const auto accepted = Clock::now();
        matcher.ForcedTokens();
        forced.push_back(Seconds(Clock::now() - accepted) * 1e6);
      }
    }
    const auto warm = Clock::now();
    Must(Matcher::Make(warmed, grammar));
    const double warm_us = Seconds(Clock::now() - warm) * 1e6;
    out.push_back({{"name", mask_case.name},
                   {"source", mask_case.source},
                   {"is_schema", mask_case.is_schema},
                   {"tokens", tokens},
                   {"times_us", times},
                   {"accept_us", Median(accepts)},
                   {"forced_us", Median(forced)},
                   {"compile_ms", cold_ms},
                   {"warm_us", warm_us}});
  }
  return {{"vocabulary", VocabularyOf(model)}, {"cases", out}};
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures what grammars and drafts cost and gain.");
  app.add_option("--model", options.model, "a GGUF file")->required();
  app.add_option("--threads", options.threads, "threads of the device");
  app.add_option("--rounds", options.rounds, "comparisons for each figure");
  app.add_flag("--show", options.show, "print what was generated, and how many drafts were right");
  CLI::App* const masks = app.add_subcommand("masks", "the time of each mask");
  CLI::App* const json = app.add_subcommand("json", "JSON-constrained tokens a second");
  app.add_subcommand("chains", "ratios of times per token");
  app.require_subcommand(1);
  CLI11_PARSE(app, argc, argv);
  const auto out = masks->parsed()  ? MeasureMasks(options)
                   : json->parsed() ? MeasureJson(options)
                                    : MeasureChains(options);
  fmt::print("{}\n", out.dump(2));
  return 0;
}

}  // namespace
}  // namespace pie

int main(int argc, char** argv) {
  return pie::Main(argc, argv);
}
