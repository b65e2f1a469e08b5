#include "chained.h"

#include <algorithm>

#include "inferlet/reactor.h"

namespace inferlet::detail {
namespace {

// Whether nothing has to be decided here between two tokens. The engine follows matchers by itself.
bool IsChainable(const GeneratorState& generator) {
  return generator.AreMatchers() && generator.probes.empty() && !generator.speculator;
}

}  // namespace

Result<std::unique_ptr<Chained>> Chained::Start(std::shared_ptr<GeneratorState> generator,
                                                std::span<const uint32_t> ends) {
  if (!IsChainable(*generator) || !PIE_TRY_SYNC(generator->Advance(true))) return nullptr;
  ContextState& context = *generator->context;
  const auto pass = BuildPass(StepState(generator));
  pass->matchers = generator->Matchers();
  generator->Expect();
  context.turns.Settle();
  std::vector<uint32_t> stops = generator->stops;
  stops.insert(stops.end(), ends.begin(), ends.end());
  const uint32_t length = context.SeqLen();
  Result<raw::Chain> chain =
      StartChain(*pass, std::min<size_t>(generator->Room(), UINT32_MAX), stops);
  if (!chain) return nullptr;
  std::unique_ptr<Chained> started(new Chained(std::move(generator), *std::move(chain), length));
  started->input_ = std::exchange(context.buffer, {});
  return started;
}

Chained::~Chained() {
  chain_.reset();
  if (started_) return;
  // Takes the first pass back.
  ContextState& context = *generator_->context;
  const uint32_t length = context.SeqLen();
  if (length > length_before_) context.Change().TruncateWorkingPageTokens(length - length_before_);
  context.buffer.insert(context.buffer.begin(), input_.begin(), input_.end());
}

Task<Result<std::optional<std::vector<uint32_t>>>> Chained::Next() {
  using Ending = pie::plus::chains::Ending;
  while (!ended_) {
    const auto progress = PIE_TRY(chain_->Take());
    ended_ = progress.ended.has_value();
    if (progress.ended == Ending::kComplete) generator_->done = true;
    if (progress.tokens.size() > 0) co_return Accept(progress.tokens.get_view());
    if (progress.ended == Ending::kCancelled) {
      co_return Error("the generation was cancelled: its context was used for another pass");
    }
    if (!ended_) co_await Ready(chain_->Pollable());
  }
  co_return std::nullopt;
}

// The engine has computed all of these tokens but the last, which waits in the buffer.
std::vector<uint32_t> Chained::Accept(std::span<const uint32_t> tokens) {
  GeneratorState& generator = *generator_;
  std::vector<uint32_t>& buffer = generator.context->buffer;
  const bool was_done = generator.done;
  const std::vector<uint32_t> accepted = generator.Cut(tokens);
  generator.done |= was_done;
  generator.steps += tokens.size();
  if (std::exchange(started_, true) && !buffer.empty()) buffer.erase(buffer.begin());
  if (accepted.size() == tokens.size()) buffer.insert(buffer.begin(), accepted.back());
  return accepted;
}

}  // namespace inferlet::detail
