#include "inferlet/generate.h"

#include <algorithm>

#include "inferlet/adapter.h"
#include "inferlet/chat.h"
#include "inferlet/scheduling.h"
#include "pass.h"

namespace inferlet {
namespace detail {

struct ProbeAt {
  uint32_t row;
  Probe probe;
};

struct GeneratorState {
  GeneratorState(std::shared_ptr<ContextState> of, Sampler chooser)
      : context(std::move(of)), sampler(chooser) {}

  std::shared_ptr<ContextState> context;
  Sampler sampler;
  std::optional<size_t> max_tokens;
  std::optional<size_t> horizon;
  std::vector<uint32_t> stops;
  std::vector<std::unique_ptr<Constraint>> constraints;
  std::vector<uint32_t> static_mask;
  std::unique_ptr<inferlet::Speculator> speculator;
  bool engine_drafts = false;
  std::vector<uint32_t> drafts_of_engine;  // for the next step
  std::optional<inferlet::Adapter> adapter;
  std::optional<int64_t> zo_seed;
  std::optional<uint64_t> seed;
  std::vector<ProbeAt> probes;

  uint64_t steps = 0;
  size_t generated = 0;
  bool stopped = false;
  std::vector<uint32_t> fresh;  // accepted, not shown to the constraints yet
  // What the last step accepted by itself and Accept may still replace.
  struct {
    bool replaceable = false;
    uint32_t tokens = 0;  // of them, in the buffer and in `fresh`
  } chosen;

  bool Done() const { return stopped || (max_tokens && generated >= *max_tokens); }
  std::vector<uint32_t> Cut(Tokens tokens);
  Result<std::vector<uint32_t>> NextMask();
  std::vector<uint32_t> NextDrafts(bool masked);
  double Bid() const;
  void Enter(std::span<const uint32_t> tokens);
};

struct StepState {
  std::shared_ptr<GeneratorState> generator;
  std::vector<ProbeAt> probes;  // the generator's first, then this step's own
  bool cleared = false;
  bool executed = false;
};

// The tokens that are accepted: those before the first stop id, as many as the limit still allows.
std::vector<uint32_t> GeneratorState::Cut(Tokens tokens) {
  const auto stop = std::find_first_of(tokens.begin(), tokens.end(), stops.begin(), stops.end());
  stopped = stop != tokens.end();
  std::vector<uint32_t> accepted(tokens.begin(), stop);
  if (max_tokens && generated + accepted.size() > *max_tokens) {
    accepted.resize(*max_tokens - std::min(generated, *max_tokens));
    stopped = false;
  }
  generated += accepted.size();
  return accepted;
}

Result<std::vector<uint32_t>> GeneratorState::NextMask() {
  std::vector<uint32_t> mask = static_mask;
  for (const auto& constraint : constraints) {
    mask = brle::And(mask, PIE_TRY_SYNC(constraint->Step(fresh)));
  }
  fresh.clear();
  return mask;
}

// One logit mask holds for all rows of a pass, so that drafts cannot be checked under a mask.
std::vector<uint32_t> GeneratorState::NextDrafts(bool masked) {
  std::vector<uint32_t> drafts = std::exchange(drafts_of_engine, {});
  if (masked) return {};
  if (speculator) drafts = speculator->Draft().first;
  if (max_tokens) drafts.resize(std::min(drafts.size(), *max_tokens - generated));
  return drafts;
}

// What the next page is worth: the credits that each remaining step may spend, over the pages that
// it will hold on average. Expected steps: the horizon; else what the limit leaves; else a guess.
double GeneratorState::Bid() const {
  double steps_left = std::max<size_t>(64, generated);
  double spread = 1;  // squared coefficient of variation
  if (horizon) {
    steps_left = *horizon > generated ? *horizon - generated : 1;
    spread = 0;
  } else if (max_tokens) {
    steps_left = std::max<size_t>(1, *max_tokens - generated);
  }
  const double pages = context->raw.CommittedPageCount() + context->raw.WorkingPageCount();
  const double income = scheduling::Balance(context->model) / steps_left +
                        scheduling::Dividend(context->model);
  const double held = pages + steps_left * (1 + spread) / (2.0 * context->page_size);
  return income / held;
}

void GeneratorState::Enter(std::span<const uint32_t> tokens) {
  context->buffer.insert(context->buffer.end(), tokens.begin(), tokens.end());
}

namespace {

constexpr SampleHandle kAutoSampler{{.id = 0}};

std::shared_ptr<PassState> BuildPass(const StepState& step, std::span<const uint32_t> drafts,
                                     std::vector<uint32_t> mask) {
  const GeneratorState& generator = *step.generator;
  auto pass = std::make_shared<PassState>(generator.context);
  const std::vector<uint32_t>& input = generator.context->buffer;
  pass->AddInput(input);
  pass->AddInput(drafts);
  pass->mask = std::move(mask);
  Reader chooser{.rows = {}, .what = generator.sampler};
  if (!step.cleared && !input.empty()) {
    for (size_t row = input.size() - 1; row < pass->tokens.size(); ++row) chooser.rows.push_back(row);
  }
  pass->readers.push_back(std::move(chooser));
  for (const ProbeAt& probe : step.probes) {
    pass->readers.push_back({.rows = {probe.row}, .what = probe.probe});
  }
  pass->adapter = generator.adapter;
  pass->zo_seed = generator.zo_seed;
  if (generator.seed) pass->seed = *generator.seed + generator.steps;
  pass->engine_drafts = generator.engine_drafts;
  pass->bid = generator.Bid();
  return pass;
}

// The model's own token, or the drafts that it confirmed and the token after them.
std::vector<uint32_t> Confirmed(const std::vector<uint32_t>& chosen, std::span<const uint32_t> drafts) {
  std::vector<uint32_t> confirmed;
  for (size_t i = 0; i < chosen.size(); ++i) {
    confirmed.push_back(chosen[i]);
    if (i >= drafts.size() || chosen[i] != drafts[i]) break;
  }
  return confirmed;
}

Task<Result<Output>> ExecuteStep(std::shared_ptr<StepState> step) {
  GeneratorState& generator = *step->generator;
  ContextState& context = *generator.context;
  if (std::exchange(step->executed, true)) co_return Error("a step is executed once: ask for the Next");

  generator.chosen.replaceable = false;
  std::vector<uint32_t> mask = PIE_TRY(generator.NextMask());
  const std::vector<uint32_t> drafts =
      step->cleared ? std::vector<uint32_t>() : generator.NextDrafts(!mask.empty());
  const auto pass = BuildPass(*step, drafts, std::move(mask));
  std::vector<uint32_t> input = std::exchange(context.buffer, {});
  Result<raw::Output> raw = co_await RunPass(pass);
  if (!raw) {
    context.buffer.insert(context.buffer.begin(), input.begin(), input.end());
    co_return Error(std::move(raw).error());
  }
  ++generator.steps;
  if (generator.engine_drafts) generator.drafts_of_engine = List(raw->spec_tokens);

  if (step->cleared) {
    PIE_TRY(context.Settle(0));
    generator.chosen = {.replaceable = true, .tokens = 0};
    co_return ToOutput(*std::move(raw), *pass, std::nullopt);
  }
  Output output = ToOutput(*std::move(raw), *pass, kAutoSampler);
  std::vector<uint32_t> chosen = output.TokensAt(kAutoSampler);
  // Several draws at one row: the first one goes on, all of them are in the output.
  if (drafts.empty()) chosen.resize(std::min<size_t>(chosen.size(), 1));
  const std::vector<uint32_t> confirmed = Confirmed(chosen, drafts);
  output.tokens = generator.Cut(confirmed);

  // A stop leaves all that was accepted in the cache; otherwise the last token is yet to be run.
  const size_t accepted = output.tokens.size();
  const size_t to_run = generator.stopped ? 0 : std::min<size_t>(accepted, 1);
  PIE_TRY(context.Settle(drafts.size() - (accepted - to_run)));
  generator.Enter(std::span(output.tokens).last(to_run));
  generator.fresh = output.tokens;
  generator.chosen = {.replaceable = true, .tokens = static_cast<uint32_t>(to_run)};
  if (generator.speculator) {
    generator.speculator->Accept(confirmed);
    const size_t wrong = drafts.size() + 1 - confirmed.size();
    if (wrong > 0) generator.speculator->Rollback(wrong);
  }
  co_return output;
}

}  // namespace
}  // namespace detail

Generator::Generator(std::shared_ptr<detail::ContextState> context, Sampler sampler)
    : state_(std::make_shared<detail::GeneratorState>(std::move(context), sampler)) {}

Generator& Generator::MaxTokens(size_t n) {
  state_->max_tokens = n;
  return *this;
}
Generator& Generator::Stop(Tokens tokens) {
  state_->stops.assign(tokens.begin(), tokens.end());
  return *this;
}
Generator& Generator::AddStop(Tokens tokens) {
  state_->stops.insert(state_->stops.end(), tokens.begin(), tokens.end());
  return *this;
}
Generator& Generator::LogitMask(std::vector<uint32_t> brle) {
  state_->static_mask = brle::And(state_->static_mask, brle);
  return *this;
}
Generator& Generator::Speculator(std::unique_ptr<inferlet::Speculator> speculator) {
  state_->speculator = std::move(speculator);
  state_->engine_drafts = false;
  return *this;
}
Generator& Generator::SystemSpeculation() {
  state_->speculator = nullptr;
  state_->engine_drafts = true;
  return *this;
}
Generator& Generator::Adapter(const inferlet::Adapter& adapter) {
  state_->adapter = adapter;
  return *this;
}
Generator& Generator::ZoSeed(int64_t seed) {
  state_->zo_seed = seed;
  return *this;
}
Generator& Generator::Seed(uint64_t seed) {
  state_->seed = seed;
  return *this;
}
Generator& Generator::Horizon(size_t n) {
  state_->horizon = n;
  return *this;
}

Generator& Generator::AddConstraint(std::unique_ptr<detail::Constraint> constraint) {
  state_->constraints.push_back(std::move(constraint));
  return *this;
}
SlotHandle Generator::AddProbe(uint32_t row, Probe probe) {
  state_->probes.push_back({row, std::move(probe)});
  return {.id = static_cast<uint32_t>(state_->probes.size())};  // 0 is the sampler's
}
const Model& Generator::ContextModel() const { return state_->context->model; }

Result<std::optional<GenStep>> Generator::Next() {
  if (state_->Done()) return std::nullopt;
  return GenStep(state_);
}

std::vector<uint32_t> Generator::Accept(Tokens tokens) {
  if (std::exchange(state_->chosen.replaceable, false)) {
    const uint32_t replaced = state_->chosen.tokens;
    state_->context->buffer.resize(state_->context->buffer.size() - replaced);
    state_->fresh.resize(state_->fresh.size() - replaced);
    state_->generated -= replaced;
    state_->stopped = false;
  }
  std::vector<uint32_t> accepted = state_->Cut(tokens);
  state_->Enter(accepted);
  state_->fresh.insert(state_->fresh.end(), accepted.begin(), accepted.end());
  return accepted;
}

bool Generator::IsDone() const { return state_->Done(); }
size_t Generator::TokensGenerated() const { return state_->generated; }

namespace {

using State = std::shared_ptr<detail::GeneratorState>;

// These take the state by value: `context.Generate(…).CollectText()` is a task of its own.
Task<Result<std::vector<uint32_t>>> DrainedTokens(State generator) {
  std::vector<uint32_t> tokens;
  while (!generator->Done()) {
    const Output output = PIE_TRY(co_await GenStep(generator).Execute());
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
  }
  co_return tokens;
}

Task<Result<std::string>> DecodedText(State generator) {
  chat::Decoder decoder(generator->context->model);
  std::string text;
  while (!generator->Done()) {
    const Output output = PIE_TRY(co_await GenStep(generator).Execute());
    if (output.tokens.empty()) continue;
    chat::Event event = PIE_TRY(decoder.Feed(output.tokens));
    if (auto* delta = std::get_if<chat::Delta>(&event)) text += delta->text;
    if (auto* done = std::get_if<chat::Done>(&event)) {
      generator->stopped = true;
      co_return std::move(done->text);
    }
  }
  co_return text;
}

Task<Result<Json>> ParsedJson(State generator) {
  const std::string text = PIE_TRY(co_await DecodedText(generator));
  Result<Json> json = Json::Parse(text);
  if (!json) co_return Error("the generated text is not JSON (" + json.error() + "): " + text);
  co_return json;
}

Task<Result<Json>> FailedJson(std::string error) { co_return Error(std::move(error)); }

}  // namespace

Task<Result<std::vector<uint32_t>>> Generator::CollectTokens() { return DrainedTokens(state_); }
Task<Result<std::string>> Generator::CollectText() { return DecodedText(state_); }
Task<Result<Json>> Generator::CollectJson(std::string_view schema) {
  Result<Generator> constrained =
      schema.empty() ? ConstrainWith(AnyJson{}) : ConstrainWith(JsonSchema{std::string(schema)});
  return constrained ? ParsedJson(state_) : FailedJson(std::move(constrained).error());
}

GenStep::GenStep(std::shared_ptr<detail::GeneratorState> generator)
    : state_(std::make_shared<detail::StepState>()) {
  state_->generator = std::move(generator);
  state_->probes = state_->generator->probes;
}

GenStep& GenStep::ClearSampler() {
  state_->cleared = true;
  return *this;
}

SlotHandle GenStep::AddProbe(uint32_t row, inferlet::Probe probe) {
  state_->probes.push_back({row, std::move(probe)});
  return {.id = static_cast<uint32_t>(state_->probes.size())};  // 0 is the sampler's
}

Task<Result<Output>> GenStep::Execute() { return detail::ExecuteStep(state_); }

}  // namespace inferlet
