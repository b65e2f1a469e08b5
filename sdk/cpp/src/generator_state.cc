#include "generator_state.h"

#include <algorithm>

namespace inferlet::detail {

Result<bool> GeneratorState::Advance() {
  PIE_TRY_SYNC(context->TakeFault());
  revocable.reset();
  const std::vector<uint32_t> news = std::exchange(fresh, {});
  if (speculator && !news.empty()) speculator->Accept(news);
  if (max_tokens && generated >= *max_tokens) done = true;
  if (done) return false;
  if (mask && news.empty()) return true;
  std::vector<uint32_t> allowed = static_mask;
  for (const auto& constraint : constraints) {
    allowed = brle::Intersect(allowed, PIE_TRY_SYNC(constraint->Step(news)));
    if (constraint->IsFinished()) done = true;
  }
  mask = std::move(allowed);
  return !done;
}

void GeneratorState::Expect() {
  if (!std::exchange(expects_anew, false)) return;
  const auto left = [this](size_t total) {
    return static_cast<double>(total > generated ? total - generated : 1);
  };
  std::optional<double> passes;
  if (horizon) {
    passes = left(*horizon);
  } else if (max_tokens) {
    passes = left(*max_tokens);
  }
  const double variation = horizon ? 0 : 1;
  const auto told = Lift(pie::plus::bidding::Expect(context->raw, passes, variation));
  if (!told) context->fault = told.error();
}

std::vector<uint32_t> GeneratorState::Cut(std::span<const uint32_t> tokens) {
  const auto stop = std::find_first_of(tokens.begin(), tokens.end(), stops.begin(), stops.end());
  std::vector<uint32_t> accepted(tokens.begin(), stop);
  done = stop != tokens.end();
  if (max_tokens) {
    const size_t room = *max_tokens > generated ? *max_tokens - generated : 0;
    if (accepted.size() >= room) {
      accepted.resize(room);
      done = true;
    }
  }
  generated += accepted.size();
  return accepted;
}

// A mask holds for one position and all rows of a pass have the same: no drafts beside one.
Drafts GeneratorState::NextDrafts() {
  Drafts drafts = std::exchange(drafts_of_engine, {});
  const size_t room = max_tokens ? *max_tokens - generated : SIZE_MAX;
  if (!mask->empty() || room <= 1) return {};
  if (speculator) std::tie(drafts.tokens, drafts.positions) = speculator->Draft();
  return drafts;
}

void GeneratorState::Enter(std::span<const uint32_t> tokens) {
  context->buffer.insert(context->buffer.end(), tokens.begin(), tokens.end());
}

std::shared_ptr<PassState> BuildPass(const StepState& step, const Drafts& drafts) {
  const GeneratorState& generator = *step.generator;
  auto pass = std::make_shared<PassState>(generator.context);
  pass->AddInput(generator.context->buffer);
  // Without any input the host tells what is wrong, whatever else is asked.
  const uint32_t sampled = pass->tokens.empty() ? 0 : pass->tokens.size() - 1;
  pass->AddInput(drafts.tokens);
  if (drafts.positions.size() == drafts.tokens.size()) {
    std::copy(drafts.positions.begin(), drafts.positions.end(),
              pass->positions.end() - drafts.positions.size());
  }

  Reader chooser{.rows = {}, .what = generator.sampler};
  if (!step.cleared) {
    for (uint32_t row = sampled; row < pass->tokens.size(); ++row) chooser.rows.push_back(row);
  }
  pass->readers.push_back(std::move(chooser));
  for (size_t i = 0; i < step.each_step; ++i) {
    const ProbeAt& probe = generator.probes[i];
    pass->readers.push_back({.rows = {sampled + probe.index}, .what = probe.probe});
  }
  for (const ProbeAt& probe : step.probes) {
    pass->readers.push_back({.rows = {probe.index}, .what = probe.probe});
  }
  pass->mask = *generator.mask;
  pass->adapter = generator.adapter;
  pass->zo_seed = generator.zo_seed;
  if (generator.seed) pass->seed = *generator.seed + generator.steps;
  pass->engine_drafts = generator.engine_drafts;
  return pass;
}

namespace {

constexpr SampleHandle kAutoSampler{{.id = 0}};

// How many drafts the model would have chosen itself. `chosen` has one token more than drafts
// match.
size_t CountConfirmed(std::span<const uint32_t> chosen, std::span<const uint32_t> drafts) {
  return std::mismatch(drafts.begin(), drafts.end(), chosen.begin(), chosen.end()).first -
         drafts.begin();
}

// Of several draws at a row, the first one goes on; all of them are in the output.
std::vector<uint32_t> FirstDraws(const std::vector<uint32_t>& tokens, uint32_t draws) {
  std::vector<uint32_t> first;
  for (size_t i = 0; i < tokens.size(); i += draws) first.push_back(tokens[i]);
  return first;
}

// Accepts what the sampler chose and settles the pages.
Result<void> Accept(GeneratorState& generator, const std::vector<uint32_t>& drafts,
                    Output& output) {
  std::vector<uint32_t> chosen =
      FirstDraws(output.TokensAt(kAutoSampler), generator.sampler.SlotsPerRow());
  const size_t confirmed = CountConfirmed(chosen, drafts);
  chosen.resize(std::min(chosen.size(), confirmed + 1));
  output.tokens = generator.Cut(chosen);
  const size_t accepted = output.tokens.size();
  if (accepted > 1) generator.expects_anew = true;  // the engine counts passes, not tokens

  // Confirmed drafts are in the pages already. The last token is left for the next pass to run, as
  // it is without drafts; only in front of a stop token nothing is left.
  const bool more_was_chosen = accepted < chosen.size();
  const bool at_limit = generator.max_tokens && generator.generated >= *generator.max_tokens;
  const bool stopped = more_was_chosen && !at_limit;
  const uint32_t cached =
      std::min(confirmed, stopped ? accepted : std::max<size_t>(accepted, 1) - 1);
  PIE_TRY_SYNC(generator.context->Settle(drafts.size() - cached, cached));
  const std::span<const uint32_t> to_run = std::span(output.tokens).subspan(cached);
  generator.Enter(to_run);
  generator.fresh = output.tokens;
  generator.revocable = {.buffered = static_cast<uint32_t>(to_run.size()), .cached = cached};
  const size_t right = std::min(confirmed, accepted);
  if (generator.speculator && right < drafts.size()) {
    generator.speculator->Rollback(drafts.size() - right);
  }
  return {};
}

// Takes a step back that has failed or was given up before its end.
class Undo {
 public:
  explicit Undo(ContextState& context)
      : context_(context), length_(context.SeqLen()), input_(std::exchange(context.buffer, {})) {}
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    if (settled_) return;
    const uint32_t length = context_.SeqLen();
    if (length > length_) context_.raw.TruncateWorkingPageTokens(length - length_);
    context_.buffer.insert(context_.buffer.begin(), input_.begin(), input_.end());
  }
  void Dismiss() { settled_ = true; }

 private:
  ContextState& context_;
  uint32_t length_;
  std::vector<uint32_t> input_;
  bool settled_ = false;
};

}  // namespace

Task<Result<Output>> ExecuteStep(std::shared_ptr<StepState> step) {
  GeneratorState& generator = *step->generator;
  ContextState& context = *generator.context;
  if (std::exchange(step->executed, true))
    co_return Error("a step runs once: ask for the Next one");

  const Drafts drafts = step->cleared ? Drafts() : generator.NextDrafts();
  const auto pass = BuildPass(*step, drafts);
  generator.Expect();
  context.turns.Settle();
  Undo undo(context);
  Result<raw::Output> raw = co_await RunPass(pass);
  if (!raw) co_return Error(std::move(raw).error());
  undo.Dismiss();
  ++generator.steps;
  if (generator.engine_drafts) {
    generator.drafts_of_engine = {List(raw->spec_tokens), List(raw->spec_positions)};
  }
  if (step->cleared) {
    PIE_TRY(context.Settle(0));
    co_return ToOutput(*std::move(raw), *pass, std::nullopt);
  }
  Output output = ToOutput(*std::move(raw), *pass, kAutoSampler);
  PIE_TRY(Accept(generator, drafts.tokens, output));
  co_return output;
}

}  // namespace inferlet::detail
