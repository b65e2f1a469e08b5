#include "inferlet/generate.h"

#include "chained.h"
#include "generator_state.h"
#include "inferlet/chat.h"

namespace inferlet {

Generator::Generator(std::shared_ptr<detail::ContextState> context, Sampler sampler)
    : state_(std::make_shared<detail::GeneratorState>(std::move(context), sampler)) {}

Generator& Generator::MaxTokens(size_t n) {
  state_->max_tokens = n;
  return *this;
}
Generator& Generator::Stop(std::span<const uint32_t> tokens) {
  const std::vector<uint32_t> turn_ends = chat::StopTokens(ContextModel());
  state_->stops.insert(state_->stops.end(), turn_ends.begin(), turn_ends.end());
  state_->stops.insert(state_->stops.end(), tokens.begin(), tokens.end());
  return *this;
}
Generator& Generator::LogitMask(std::vector<uint32_t> brle) {
  state_->static_mask = brle::Intersect(state_->static_mask, brle);
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
SlotHandle Generator::AddProbe(uint32_t index, Probe probe) {
  state_->probes.push_back({index, std::move(probe)});
  return {.id = static_cast<uint32_t>(state_->probes.size())};  // 0 is the sampler's
}
const Model& Generator::ContextModel() const {
  return state_->context->model;
}

Result<std::optional<GenStep>> Generator::Next() {
  if (!PIE_TRY_SYNC(state_->Advance())) return std::nullopt;
  return GenStep(state_);
}

std::vector<uint32_t> Generator::Accept(std::span<const uint32_t> tokens) {
  detail::ContextState& context = *state_->context;
  const auto revocable = std::exchange(state_->revocable, std::nullopt);
  // What the program has flushed since stays.
  if (revocable && context.buffer.size() >= revocable->buffered) {
    context.buffer.resize(context.buffer.size() - revocable->buffered);
    if (revocable->cached > 0) context.raw.TruncateWorkingPageTokens(revocable->cached);
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

// These take the state by value: `context.Generate(…).CollectText()` is a task of its own.
Task<Result<std::vector<uint32_t>>> DrainedTokens(State generator) {
  std::vector<uint32_t> tokens;
  if (const auto chained = PIE_TRY(detail::Chained::Start(generator))) {
    while (const auto more = PIE_TRY(co_await chained->Next())) {
      tokens.insert(tokens.end(), more->begin(), more->end());
    }
    co_return tokens;
  }
  while (PIE_TRY(generator->Advance())) {
    const Output output = PIE_TRY(co_await GenStep(generator).Execute());
    tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
  }
  co_return tokens;
}

Task<Result<std::string>> DecodedText(State generator) {
  chat::Decoder decoder(generator->context->model);
  std::string text;
  const std::vector<uint32_t> turn_ends = chat::StopTokens(generator->context->model);
  if (const auto chained = PIE_TRY(detail::Chained::Start(generator, turn_ends))) {
    while (const auto more = PIE_TRY(co_await chained->Next())) {
      chat::Event event = PIE_TRY(decoder.Feed(*more));
      // What was said beside a control token.
      if (std::holds_alternative<chat::Interrupt>(event)) event = PIE_TRY(decoder.Feed({}));
      if (auto* delta = std::get_if<chat::Delta>(&event)) text += delta->text;
      if (auto* done = std::get_if<chat::Done>(&event)) {
        generator->done = true;
        co_return std::move(done->text);
      }
    }
    co_return text;
  }
  while (PIE_TRY(generator->Advance())) {
    const Output output = PIE_TRY(co_await GenStep(generator).Execute());
    chat::Event event = PIE_TRY(decoder.Feed(output.tokens));
    if (auto* delta = std::get_if<chat::Delta>(&event)) text += delta->text;
    if (auto* done = std::get_if<chat::Done>(&event)) {
      generator->done = true;
      co_return std::move(done->text);
    }
  }
  co_return text;
}

Task<Result<Json>> ParsedJson(State generator) {
  const std::vector<uint32_t> tokens = PIE_TRY(co_await DrainedTokens(generator));
  const std::string text = PIE_TRY(generator->context->model.Tokenizer().Decode(tokens));
  Result<Json> json = Json::Parse(text);
  if (!json) co_return Error("the model's JSON is not usable: " + json.error() + " in " + text);
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
Task<Result<Json>> Generator::CollectJson(std::string_view schema) {
  Result<Generator> constrained =
      schema.empty() ? ConstrainWith(AnyJson{}) : ConstrainWith(JsonSchema{std::string(schema)});
  if (!constrained) return FailedJson(std::move(constrained).error());
  Stop();
  return ParsedJson(state_);
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
  return detail::ExecuteStep(state_);
}

}  // namespace inferlet
