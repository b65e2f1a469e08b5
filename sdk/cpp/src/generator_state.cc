#include "generator_state.h"

#include <algorithm>
#include <tuple>

namespace inferlet::detail {

Result<bool> GeneratorState::Advance(bool engine_matches) {
  PIE_TRY_SYNC(context->TakeFault());
  if (!sampler.ChoosesToken()) {
    return Error("Sampler::Embedding() chooses no token; use it with Context::Forward");
  }
  PIE_TRY_SYNC(CheckRanges(sampler));
  if (!fault.empty()) return Error(fault);
  if (speculator && engine_drafts) {
    return Error("speculator and system_speculation exclude each other: choose one");
  }
  revocable.reset();
  const std::vector<uint32_t> news = std::exchange(fresh, {});
  if (Room() == 0) done = true;
  if (!done) PIE_TRY_SYNC(AdvanceConstraints(news, engine_matches));
  if (speculator) {
    if (!news.empty()) speculator->Accept(news);
    if (done && !std::exchange(was_reset, true)) speculator->Reset();
  }
  return !done;
}

Result<void> GeneratorState::AdvanceConstraints(std::span<const uint32_t> news,
                                                bool engine_matches) {
  if (mask && news.empty()) return {};
  std::vector<uint32_t> allowed = static_mask;
  // The text is complete when all grammars say so. One that has ended before allows the end only.
  size_t grammars = 0, complete = 0;
  for (const auto& constraint : constraints) {
    if (!engine_matches) {
      allowed = brle::Intersect(allowed, PIE_TRY_SYNC(constraint->Step(news)));
    } else if (!news.empty()) {
      PIE_TRY_SYNC(constraint->AsMatcher()->Inner().AcceptTokens(news));
    }
    const bool is_finished = constraint->IsFinished();
    if (constraint->AsMatcher()) {
      ++grammars;
      complete += is_finished;
    } else if (is_finished) {
      done = true;
    }
  }
  if (grammars > 0 && complete == grammars) done = true;
  if (!done && brle::AllowsNone(allowed)) return Error(NothingAllowed());
  mask.reset();
  if (!engine_matches) mask = std::move(allowed);
  return {};
}

std::string GeneratorState::NothingAllowed() const {
  std::string text =
      "no token is allowed at position " + std::to_string(generated) + " of the text by all of: ";
  const char* separator = "";
  for (const auto& constraint : constraints) {
    text += std::exchange(separator, ", ") + constraint->Name();
  }
  if (!static_mask.empty()) text += std::string(separator) + "the logit mask";
  return text;
}

bool GeneratorState::AreMatchers() const {
  return std::ranges::all_of(constraints, [](const auto& each) { return each->AsMatcher(); });
}

std::vector<const Matcher*> GeneratorState::Matchers() const {
  std::vector<const Matcher*> matchers;
  for (const auto& constraint : constraints) matchers.push_back(constraint->AsMatcher());
  return matchers;
}

size_t GeneratorState::Room() const {
  if (!max_tokens) return SIZE_MAX;
  return *max_tokens > generated ? *max_tokens - generated : 0;
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

// There are no drafts beside a constraint of the program's own, whose mask holds for one position.
Result<Drafts> GeneratorState::NextDrafts(uint32_t position) {
  Drafts drafts = std::exchange(drafts_of_engine, {});
  if (!EngineMatches() || sampler.SlotsPerRow() > 1 || Room() <= 1) return Drafts();
  if (speculator) std::tie(drafts.tokens, drafts.positions) = speculator->Draft();
  if (drafts.positions.empty()) {
    for (size_t i = 0; i < drafts.tokens.size(); ++i) drafts.positions.push_back(position + i);
  }
  if (drafts.positions.size() != drafts.tokens.size()) {
    return Error("draft() returned " + std::to_string(drafts.tokens.size()) + " tokens but " +
                 std::to_string(drafts.positions.size()) + " positions");
  }
  return drafts;
}

void GeneratorState::Enter(std::span<const uint32_t> tokens) {
  context->buffer.insert(context->buffer.end(), tokens.begin(), tokens.end());
}

std::shared_ptr<PassState> BuildPass(const StepState& step) {
  const GeneratorState& generator = *step.generator;
  auto pass = std::make_shared<PassState>(generator.context);
  pass->AddInput(generator.context->buffer);
  // If everything was flushed, a generation samples the last position: row 0 of a pass without
  // input.
  const uint32_t sampled = pass->tokens.empty() ? 0 : pass->tokens.size() - 1;

  Reader chooser{.rows = {}, .what = generator.sampler};
  if (!step.cleared) chooser.rows.push_back(sampled);
  pass->readers.push_back(std::move(chooser));
  for (size_t i = 0; i < step.each_step; ++i) {
    const ProbeAt& probe = generator.probes[i];
    pass->readers.push_back({.rows = {sampled + probe.index}, .what = probe.probe});
  }
  for (const ProbeAt& probe : step.probes) {
    pass->readers.push_back({.rows = {sampled + probe.index}, .what = probe.probe});
  }
  pass->mask = generator.mask.value_or(generator.static_mask);
  pass->adapter = generator.adapter;
  pass->zo_seed = generator.zo_seed;
  if (generator.seed) pass->seed = *generator.seed + generator.steps;
  pass->engine_drafts = generator.engine_drafts;
  return pass;
}

namespace {

constexpr SampleHandle kAutoSampler{{.id = 0}};

// Of several draws at a row, the first one goes on; all of them are in the output.
std::vector<uint32_t> FirstDraws(const std::vector<uint32_t>& tokens, uint32_t draws) {
  std::vector<uint32_t> first;
  for (size_t i = 0; i < tokens.size(); i += draws) first.push_back(tokens[i]);
  return first;
}

// Accepts what the sampler chose and settles the pages. `drafted` counts the speculator's tokens.
Result<void> Accept(GeneratorState& generator, size_t drafted, Output& output) {
  const std::vector<uint32_t> chosen =
      FirstDraws(output.TokensAt(kAutoSampler), generator.sampler.SlotsPerRow());
  const size_t confirmed = chosen.size() - 1;  // drafts, which are in the pages
  const size_t room = generator.Room();
  output.tokens = generator.Cut(chosen);
  const size_t accepted = output.tokens.size();
  if (accepted > 1) generator.expects_anew = true;  // the engine counts passes, not tokens

  // The last token is left for the next pass, as it is without drafts. Before a stop token, no
  // token is left.
  const bool stopped = accepted < chosen.size() && accepted < room;
  const uint32_t cached =
      std::min(confirmed, stopped ? accepted : std::max<size_t>(accepted, 1) - 1);
  PIE_TRY_SYNC(generator.context->Settle(confirmed - cached, cached));
  const std::span<const uint32_t> to_run = std::span(output.tokens).subspan(cached);
  generator.Enter(to_run);
  generator.fresh = output.tokens;
  generator.revocable = {.buffered = static_cast<uint32_t>(to_run.size()), .cached = cached};
  const size_t right = std::min(confirmed, accepted);
  if (generator.speculator && right < drafted) generator.speculator->Rollback(drafted - right);
  return {};
}

// Undoes a step that has failed or was cancelled.
class Undo {
 public:
  // `length` is that of the context.
  Undo(ContextState& context, uint32_t length)
      : context_(context), length_(length), input_(std::exchange(context.buffer, {})) {}
  Undo(const Undo&) = delete;
  Undo& operator=(const Undo&) = delete;
  ~Undo() {
    if (settled_) return;
    const uint32_t length = context_.SeqLen();
    if (length > length_) context_.Change().TruncateWorkingPageTokens(length - length_);
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

  const auto pass = BuildPass(*step);
  // Probes of the sampled row read the drafts too; one of another row cannot.
  const bool same_row = std::ranges::all_of(
      pass->readers, [&](const Reader& reader) { return reader.rows == pass->readers[0].rows; });
  if (!step->cleared && !pass->tokens.empty() && same_row)
    pass->drafts = PIE_TRY(generator.NextDrafts(pass->start + pass->tokens.size()));
  const size_t drafted = pass->drafts.tokens.size();
  const size_t fit = std::min(drafted, generator.Room() - 1);
  pass->drafts.tokens.resize(fit);
  pass->drafts.positions.resize(fit);
  if (generator.EngineMatches()) pass->matchers = generator.Matchers();
  generator.Expect();
  context.turns.Settle();
  Undo undo(context, pass->start);
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
  generator.steps += output.TokensAt(kAutoSampler).size() / generator.sampler.SlotsPerRow() - 1;
  PIE_TRY(Accept(generator, drafted, output));
  co_return output;
}

}  // namespace inferlet::detail
