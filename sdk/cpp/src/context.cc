#include "inferlet/context.h"

#include "inferlet/chat.h"
#include "inferlet/forward.h"
#include "inferlet/generate.h"
#include "inferlet/reactor.h"
#include "inferlet/scheduling.h"
#include "pass.h"

namespace inferlet {

using detail::ContextState;
using detail::Lift;

Result<Context> Context::Adopt(const inferlet::Model& model,
                               std::expected<raw::Context, wit::string> made) {
  return Lift(std::move(made), [&](raw::Context raw) {
    return Context(std::make_shared<ContextState>(std::move(raw), model));
  });
}

Result<Context> Context::New(const inferlet::Model& model) {
  return Adopt(model, raw::Context::Create(model.Inner()));
}
Result<Context> Context::Open(const inferlet::Model& model, std::string_view name) {
  Context opened = PIE_TRY_SYNC(Adopt(model, raw::Context::Open(model.Inner(), name)));
  opened.state_->turns = detail::Turns::InTheMiddle();
  return opened;
}
Result<Context> Context::Take(const inferlet::Model& model, std::string_view name) {
  Context taken = PIE_TRY_SYNC(Adopt(model, raw::Context::Take(model.Inner(), name)));
  taken.state_->turns = detail::Turns::InTheMiddle();
  return taken;
}
Result<void> Context::Delete(const inferlet::Model& model, std::string_view name) {
  return Lift(raw::Context::Delete(model.Inner(), name));
}

Result<Context> Context::Whole() const {
  PIE_TRY_SYNC(state_->TakeFault());
  if (state_->buffer.empty()) return Context(state_);
  Context copy = PIE_TRY_SYNC(Fork());
  PIE_TRY_SYNC(PIE_TRY_SYNC(BlockOn(copy.Flush())));
  return copy;
}
Result<void> Context::Save(std::string_view name) const {
  return Lift(PIE_TRY_SYNC(Whole()).state_->Change().Save(name));
}
Result<std::string> Context::Snapshot() const {
  return detail::LiftText(PIE_TRY_SYNC(Whole()).state_->Change().Snapshot());
}
Result<Context> Context::Fork() const {
  PIE_TRY_SYNC(state_->TakeFault());
  Context fork = PIE_TRY_SYNC(Adopt(state_->model, state_->raw.Fork()));
  fork.state_->buffer = state_->buffer;
  fork.state_->turns = state_->turns;
  return fork;
}
void Context::Release() {
  state_->Change().Destroy();
  state_->is_released = true;
}

namespace {

using Kind = detail::Turns::Kind;

void Say(ContextState& state, detail::Turns::Turn turn) {
  Result<void> said = state.turns.Add(state.model, state.buffer, std::move(turn));
  if (!said) state.fault = std::move(said).error();
}

// Returns the call as the engine's contract has it. The text of the arguments goes in as it is:
// parsing could change its numbers. The name comes last, so that no argument replaces it.
std::string CallText(const tools::Call& call) {
  const bool is_blank = call.arguments.find_first_not_of(" \t\r\n") == std::string::npos;
  return "{\"arguments\": " + (is_blank ? "{}" : call.arguments) +
         ", \"id\": " + Json(call.id).Dump() + ", \"name\": " + Json(call.name).Dump() + "}";
}

}  // namespace

Context& Context::System(std::string_view text) {
  Say(*state_, {Kind::kSystem, std::string(text)});
  return *this;
}
Context& Context::User(std::string_view text) {
  Say(*state_, {Kind::kUser, std::string(text)});
  return *this;
}
Context& Context::Assistant(std::string_view text) {
  Say(*state_, {Kind::kAssistant, std::string(text)});
  return *this;
}
Context& Context::AssistantCalls(std::string_view text, std::span<const tools::Call> calls) {
  std::vector<std::string> texts;
  texts.reserve(calls.size());
  for (const tools::Call& call : calls) texts.push_back(CallText(call));
  Say(*state_, {Kind::kAssistant, std::string(text), {}, std::move(texts)});
  return *this;
}
Context& Context::Cue() {
  Say(*state_, {Kind::kCue, {}});
  return *this;
}
Context& Context::AnswerTool(std::string_view name, std::string_view value) {
  Say(*state_, {Kind::kAnswer, std::string(value), std::string(name)});
  return *this;
}
Context& Context::AnswerCall(const tools::Call& call, std::string_view value) {
  std::vector<std::string> ids;
  if (!call.id.empty()) ids.push_back(call.id);
  Say(*state_, {Kind::kAnswer, std::string(value), call.name, std::move(ids)});
  return *this;
}
Result<void> Context::EquipTools(std::span<const std::string> schemas) {
  PIE_TRY_SYNC(state_->TakeFault());
  return state_->turns.Add(state_->model, state_->buffer,
                           {Kind::kTools, {}, {}, {schemas.begin(), schemas.end()}});
}
Context& Context::Seal() {
  state_->turns.Seal();
  const std::vector<uint32_t> tokens = chat::Seal(Model());
  state_->buffer.insert(state_->buffer.end(), tokens.begin(), tokens.end());
  return *this;
}
Context& Context::AppendText(std::string_view text) {
  Result<std::vector<uint32_t>> tokens = Model().Tokenizer().TryEncode(text);
  if (tokens) return Append(*tokens);
  state_->fault = std::move(tokens).error();
  return *this;
}
Context& Context::Append(std::span<const uint32_t> tokens) {
  state_->turns.Settle();
  state_->buffer.insert(state_->buffer.end(), tokens.begin(), tokens.end());
  return *this;
}

namespace {

// Takes the state by value: a Context may be moved or destroyed while its flush runs.
Task<Result<void>> FlushBuffer(std::shared_ptr<ContextState> context) {
  PIE_TRY(context->TakeFault());
  context->turns.Settle();
  if (context->buffer.empty()) co_return {};
  auto pass = std::make_shared<detail::PassState>(context);
  pass->AddInput(context->buffer);
  context->buffer.clear();
  Result<raw::Output> output = co_await detail::RunPass(pass);
  if (!output) {
    context->buffer.insert(context->buffer.begin(), pass->tokens.begin(), pass->tokens.end());
    co_return Error(std::move(output).error());
  }
  co_return context->Settle(0);
}

}  // namespace

Task<Result<void>> Context::Flush() {
  return FlushBuffer(state_);
}

Result<void> Context::Truncate(Count n) {
  PIE_TRY_SYNC(state_->TakeFault());
  PIE_TRY_SYNC(n.Check("n"));
  state_->turns.Settle();
  return Lift(pie::plus::fallible::TruncateWorkingPageTokens(state_->Change(), n.As<uint32_t>()));
}

Generator Context::Generate(Sampler sampler) {
  return Generator(state_, sampler);
}
inferlet::Forward Context::Forward() {
  return inferlet::Forward(state_);
}

const inferlet::Model& Context::Model() const {
  return state_->model;
}
uint32_t Context::PageSize() const {
  return state_->page_size;
}
uint32_t Context::SeqLen() const {
  return state_->SeqLen();
}
uint64_t Context::CachedTokens() const {
  return pie::plus::caching::CachedTokens(state_->raw);
}
const std::vector<uint32_t>& Context::Buffer() const {
  return state_->buffer;
}
const raw::Context& Context::Inner() const {
  state_->is_lent = true;
  return state_->Change();
}

Result<void> Context::SetBid(double value) {
  PIE_TRY_SYNC(state_->TakeFault());
  return Lift(pie::plus::bidding::Once(state_->raw, value));
}
Idle Context::Idle() {
  return inferlet::Idle(state_);
}
Result<void> Context::Suspend() {
  PIE_TRY_SYNC(state_->TakeFault());
  return Lift(state_->Change().Suspend());
}

Idle::Idle(std::shared_ptr<ContextState> state) : state_(std::move(state)) {
  if (state_->idle_guards++ == 0) (void)pie::plus::bidding::Idle(state_->raw, true);
}

Idle::~Idle() {
  if (state_ && --state_->idle_guards == 0) (void)pie::plus::bidding::Idle(state_->raw, false);
}

namespace scheduling {

namespace host = pie::core::scheduling;

double Price() {
  return host::Price();
}
double Rent(const Context& context) {
  return host::Rent(context.Inner());
}
double Dividend(const Model& model) {
  return host::Dividend(model.Inner());
}
double Latency(const Context& context) {
  return host::Latency(context.Inner());
}
double Balance(const Model& model) {
  return host::Balance(model.Inner());
}

}  // namespace scheduling
}  // namespace inferlet
