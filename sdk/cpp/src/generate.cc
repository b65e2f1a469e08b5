#include "inferlet/generate.h"

#include <algorithm>

#include "chained.h"
#include "generator_state.h"
#include "inferlet/chat.h"
#include "thoughts.h"

namespace inferlet {

Generator::Generator(std::shared_ptr<detail::ContextState> context, Sampler sampler)
    : state_(std::make_shared<detail::GeneratorState>(std::move(context), sampler)) {
  state_->stops = chat::StopTokens(ContextModel());
}

Generator& Generator::MaxTokens(Count n) {
  state_->Note(n.Check("max_tokens"));
  state_->max_tokens = n.As<size_t>();
  state_->expects_anew = true;
  return *this;
}
Generator& Generator::Stop(std::span<const uint32_t> tokens) {
  state_->stops.insert(state_->stops.end(), tokens.begin(), tokens.end());
  return *this;
}
Generator& Generator::IgnoreEos() {
  const std::vector<uint32_t> own = chat::StopTokens(ContextModel());
  std::erase_if(state_->stops,
                [&own](uint32_t token) { return std::ranges::contains(own, token); });
  return *this;
}
Generator& Generator::ThinkFirst() {
  state_->thinks_first = true;
  return *this;
}
Generator& Generator::LogitMask(std::vector<uint32_t> brle) {
  state_->static_mask = brle::Intersect(state_->static_mask, brle);
  return *this;
}
Generator& Generator::Speculator(std::unique_ptr<inferlet::Speculator> speculator) {
  state_->speculator = std::move(speculator);
  return *this;
}
Generator& Generator::SystemSpeculation() {
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
Generator& Generator::Horizon(Count n) {
  state_->Note(n.Check("horizon"));
  state_->horizon = n.As<size_t>();
  state_->expects_anew = true;
  return *this;
}

Generator& Generator::AddConstraint(std::unique_ptr<detail::Constraint> constraint) {
  state_->constraints.push_back(std::move(constraint));
  state_->mask.reset();
  return *this;
}
SlotHandle Generator::AddProbe(uint32_t index, Probe probe) {
  state_->probes.push_back({index, std::move(probe)});
  return {.id = static_cast<uint32_t>(state_->probes.size())};  // 0 is the sampler's
}
const Model& Generator::ContextModel() const {
  return state_->context->model;
}

Result<std::optional<GenStep>> Generator::Next() {
  if (state_->open_step) {
    return Error("the last step was not executed: co_await step->Execute()");
  }
  if (!PIE_TRY_SYNC(state_->Advance())) return std::nullopt;
  state_->open_step = true;
  return GenStep(state_);
}

std::vector<uint32_t> Generator::Accept(std::span<const uint32_t> tokens) {
  detail::ContextState& context = *state_->context;
  const auto revocable = std::exchange(state_->revocable, std::nullopt);
  // Tokens that the program has flushed since then stay.
  if (revocable && context.buffer.size() >= revocable->buffered) {
    context.buffer.resize(context.buffer.size() - revocable->buffered);
    if (revocable->cached > 0) context.Change().TruncateWorkingPageTokens(revocable->cached);
    state_->generated -= state_->fresh.size();
    state_->fresh.clear();
    state_->done = false;
  }
  if (state_->done) return {};
  std::vector<uint32_t> accepted = state_->Cut(tokens);
  state_->Enter(accepted);
  state_->fresh.insert(state_->fresh.end(), accepted.begin(), accepted.end());
  return accepted;
}

bool Generator::IsDone() const {
  return state_->done;
}
size_t Generator::TokensGenerated() const {
  return state_->generated;
}

namespace {

using State = std::shared_ptr<detail::GeneratorState>;

// A generation run to its end, in batches of accepted tokens: the engine runs the loop where it
// can. Where this program has to decide something between two passes, a batch is one step.
class Run {
 public:
  // A chained loop also ends at the tokens `ends`, which it accepts.
  static Result<Run> Start(State generator, std::span<const uint32_t> ends = {}) {
    auto chained = PIE_TRY_SYNC(detail::Chained::Start(generator, ends));
    return Run(std::move(generator), std::move(chained));
  }

  // The tokens accepted since the last call; none at the end.
  Task<Result<std::optional<std::vector<uint32_t>>>> Next() {
    return chained_ ? chained_->Next() : NextStep(generator_);
  }

 private:
  Run(State generator, std::unique_ptr<detail::Chained> chained)
      : generator_(std::move(generator)), chained_(std::move(chained)) {}

  static Task<Result<std::optional<std::vector<uint32_t>>>> NextStep(State generator) {
    if (!PIE_TRY(generator->Advance())) co_return std::nullopt;
    co_return PIE_TRY(co_await GenStep(generator).Execute()).tokens;
  }

  State generator_;
  std::unique_ptr<detail::Chained> chained_;
};

// These take the state by value: `context.Generate(…).CollectText()` is a task of its own.
Task<Result<std::vector<uint32_t>>> DrainedTokens(State generator) {
  Run run = PIE_TRY(Run::Start(generator));
  std::vector<uint32_t> tokens;
  while (const auto more = PIE_TRY(co_await run.Next())) {
    tokens.insert(tokens.end(), more->begin(), more->end());
  }
  co_return tokens;
}

Task<Result<std::string>> DecodedText(State generator) {
  const Model& model = generator->context->model;
  chat::Decoder decoder(model);
  Run run = PIE_TRY(Run::Start(generator, chat::StopTokens(model)));
  std::string text;
  while (const auto tokens = PIE_TRY(co_await run.Next())) {
    chat::Event event = PIE_TRY(decoder.Feed(*tokens));
    // The text around a control token comes with the next call.
    if (std::holds_alternative<chat::Interrupt>(event)) event = PIE_TRY(decoder.Feed({}));
    if (auto* delta = std::get_if<chat::Delta>(&event)) text += delta->text;
    if (auto* done = std::get_if<chat::Done>(&event)) {
      generator->done = true;
      co_return std::move(done->text);
    }
  }
  co_return text;
}

// `thoughts` may come before the document.
Task<Result<Json>> ParsedJson(State generator, std::optional<detail::Thoughts> thoughts) {
  const std::vector<uint32_t> tokens = PIE_TRY(co_await DrainedTokens(generator));
  const Model& model = generator->context->model;
  const std::string text = PIE_TRY(thoughts ? thoughts->Document(model, tokens)
                                            : model.Tokenizer().Decode(tokens, true));
  Result<Json> json = Json::Parse(text);
  if (!json) {
    const bool is_whole = json.error().starts_with("too deeply nested") ||
                          json.error().starts_with("number out of range");
    const std::string why =
        is_whole ? "cannot be read"
                 : "is not complete after " + std::to_string(generator->generated) + " tokens";
    co_return Error("the JSON document " + why + ": " + json.error() + " in " + text);
  }
  co_return json;
}

Task<Result<Json>> FailedJson(std::string error) {
  co_return Error(std::move(error));
}

}  // namespace

Task<Result<std::vector<uint32_t>>> Generator::CollectTokens() {
  return DrainedTokens(state_);
}
Task<Result<std::string>> Generator::CollectText() {
  return DecodedText(state_);
}
Result<std::optional<detail::Thoughts>> Generator::ConstrainDocument(std::string_view schema) {
  std::optional<detail::Thoughts> thoughts = detail::Thoughts::Of(ContextModel());
  if (thoughts && !thoughts->begun() && !state_->thinks_first) thoughts.reset();
  if (!thoughts) {
    PIE_TRY_SYNC(schema.empty() ? ConstrainWith(AnyJson{})
                                : ConstrainWith(JsonSchema{std::string(schema)}));
    return thoughts;
  }
  const std::string_view source = schema.empty() ? "{}" : schema;
  PIE_TRY_SYNC(Grammar::FromJsonSchema(source));  // says what is wrong with it
  PIE_TRY_SYNC(ConstrainWith(Ebnf{thoughts->Grammar(source)}));
  return thoughts;
}
Task<Result<Json>> Generator::CollectJson(std::string_view schema) {
  auto thoughts = ConstrainDocument(schema);
  if (!thoughts) return FailedJson(std::move(thoughts).error());
  return ParsedJson(state_, *std::move(thoughts));
}

GenStep::GenStep(std::shared_ptr<detail::GeneratorState> generator)
    : state_(std::make_shared<detail::StepState>(std::move(generator))) {}

GenStep& GenStep::ClearSampler() {
  state_->cleared = true;
  return *this;
}

SlotHandle GenStep::AddProbe(uint32_t row, inferlet::Probe probe) {
  state_->probes.push_back({row, std::move(probe)});
  // 0 is the sampler's, then come the probes of every step.
  return {.id = static_cast<uint32_t>(state_->each_step + state_->probes.size())};
}

Task<Result<Output>> GenStep::Execute() {
  state_->generator->open_step = false;
  return detail::ExecuteStep(state_);
}

}  // namespace inferlet
