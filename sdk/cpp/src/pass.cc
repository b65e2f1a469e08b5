#include "pass.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <tuple>

#include "inferlet/reactor.h"

namespace inferlet::detail {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

std::string Digits(float number) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return std::string(digits.data(), end);
}

void Attach(const Reader& reader, const raw::ForwardPass& pass) {
  if (reader.rows.empty()) return;
  pass.Sampler(reader.rows, std::visit(Overloaded{
                                           [](const Sampler& sampler) { return sampler.ToRaw(); },
                                           [](const Probe& probe) { return ToRaw(probe); },
                                       },
                                       reader.what));
}

Result<raw::ForwardPass> Build(const PassState& state) {
  raw::ForwardPass pass(state.context->model.Inner());
  pass.Context(state.context->raw);
  if (!state.tokens.empty()) pass.InputTokens(state.tokens, state.positions);
  if (!state.attention.empty()) {
    std::vector<std::span<const uint32_t>> rows(state.attention.begin(), state.attention.end());
    pass.AttentionMask(rows);
  }
  if (!state.mask.empty()) pass.LogitMask(state.mask);
  for (const Reader& reader : state.readers) Attach(reader, pass);
  if (state.adapter) pass.Adapter(state.adapter->Inner());
  if (state.zo_seed) pie::zo::zo::AdapterSeed(pass, *state.zo_seed);
  if (state.seed) pie::plus::sampling::Seed(pass, *state.seed);
  for (const Matcher* matcher : state.matchers) {
    PIE_TRY_SYNC(Lift(pie::plus::constraints::Constrain(pass, matcher->Inner())));
  }
  if (!state.drafts.tokens.empty()) {
    pass.InputSpeculativeTokens(state.drafts.tokens, state.drafts.positions);
  }
  if (state.engine_drafts) pass.OutputSpeculativeTokens(true);
  return pass;
}

// More tokens are a prompt, which takes its time anyway.
constexpr size_t kFewTokens = 16;

// The sampler of a pass that does nothing but continue the context by a few tokens and sample the
// last.
const Sampler* ShortStep(const PassState& state, uint32_t length) {
  const auto count = static_cast<uint32_t>(state.tokens.size());
  if (count > kFewTokens || state.readers.size() != 1 || !state.attention.empty()) return nullptr;
  if (state.adapter || state.zo_seed || state.engine_drafts) return nullptr;
  if (!state.drafts.tokens.empty() || !state.matchers.empty()) return nullptr;
  const Reader& reader = state.readers.front();
  if (reader.rows.size() != 1 || reader.rows.front() + 1 != count) return nullptr;
  for (uint32_t i = 0; i < count; ++i) {
    if (state.positions[i] != length + i) return nullptr;
  }
  return std::get_if<Sampler>(&reader.what);
}

uint32_t SlotsWanted(const PassState& pass) {
  uint32_t wanted = 0;
  for (const Reader& reader : pass.readers) wanted += reader.SlotCount();
  return wanted;
}

// Waits for a pass that samples one row.
Task<Result<raw::Output>> AwaitStep(raw::FutureOutput future) {
  using Given = pie::plus::steps::Given;
  using Slot = pie::core::inference::SlotOutput;
  std::expected<Given, wit::string> given = co_await Finished(std::move(future));
  if (!given) co_return Error(Text(given.error()));
  if (auto* output = std::get_if<Given::Output>(&given->variants)) {
    co_return std::move(output->value);
  }
  raw::Output output;
  output.slots = wit::vector<Slot>::allocate(1);
  output.slots.initialize(0, Slot{Slot::Token{std::get<Given::Token>(given->variants).value}});
  co_return output;
}

Task<Result<raw::Output>> Await(raw::FutureOutput future, uint32_t slots_wanted) {
  co_await Ready(future.Pollable());
  std::optional<raw::Output> output = future.Get();
  // A pass that failed after it was queued gives no slots; one that asked for none looks the same.
  if (!output || output->slots.size() < slots_wanted || slots_wanted == 0) {
    if (const auto failure = pie::plus::outcome::Failure(future)) co_return Error(Text(*failure));
  }
  if (!output || output->slots.size() < slots_wanted) {
    co_return Error("the engine answered " + std::to_string(output ? output->slots.size() : 0) +
                    " of " + std::to_string(slots_wanted) + " slots, without a reason");
  }
  co_return *std::move(output);
}

}  // namespace

Extent ContextState::Measure() const {
  if (known) return *known;
  return {.committed_pages = raw.CommittedPageCount(),
          .working_pages = raw.WorkingPageCount(),
          .working_tokens = raw.WorkingPageTokenCount()};
}

Result<uint32_t> ContextState::Reserve(const Extent& extent, uint32_t tokens) {
  const uint32_t pages = (extent.working_tokens + tokens + page_size - 1) / page_size;
  if (pages <= extent.working_pages) return extent.working_pages;
  PIE_TRY_SYNC(Lift(Change().ReserveWorkingPages(pages - extent.working_pages)));
  return pages;
}

Result<void> ContextState::Settle(uint32_t forgotten, uint32_t revocable) {
  if (forgotten > 0) Change().TruncateWorkingPageTokens(forgotten);
  const uint32_t tokens = known ? known->working_tokens : raw.WorkingPageTokenCount();
  const uint32_t full = (tokens - revocable) / page_size;
  if (full == 0) return {};
  const std::optional<Extent> before = known;
  PIE_TRY_SYNC(Lift(Change().CommitWorkingPages(full)));
  if (before) {
    known = {.committed_pages = before->committed_pages + full,
             .working_pages = before->working_pages - full,
             .working_tokens = tokens - full * page_size};
  }
  return {};
}

Result<void> ContextState::TakeFault() {
  if (is_released) return Error("this context was released");
  if (fault.empty()) return {};
  return Error(std::exchange(fault, {}));
}

Result<void> CheckRanges(const pie::core::inference::Sampler& sampler) {
  using Raw = pie::core::inference::Sampler;
  float temperature = 0, p = 0;
  std::visit(Overloaded{
                 [&](const Raw::TopP& it) { std::tie(temperature, p) = it.value; },
                 [&](const Raw::MinP& it) { std::tie(temperature, p) = it.value; },
                 [&](const Raw::TopKTopP& it) {
                   temperature = std::get<0>(it.value);
                   p = std::get<2>(it.value);
                 },
                 [&](const Raw::TopK& it) { temperature = std::get<0>(it.value); },
                 [&](const Raw::Multinomial& it) { temperature = std::get<0>(it.value); },
                 [&](const Raw::Dist& it) { temperature = std::get<0>(it.value); },
                 [](const auto&) {},
             },
             sampler.variants);
  if (!(temperature >= 0 && std::isfinite(temperature))) {
    return Error("temperature must be 0 or more, not " + Digits(temperature));
  }
  if (!(p >= 0 && p <= 1)) return Error("p must be between 0 and 1, not " + Digits(p));
  return {};
}

Result<void> CheckRanges(const Sampler& sampler) {
  PIE_TRY_SYNC(sampler.Number().Check(sampler.IsMultinomial() ? "draws" : "k"));
  return CheckRanges(sampler.ToRaw());
}

uint32_t Reader::SlotCount() const {
  const auto* sampler = std::get_if<Sampler>(&what);
  return static_cast<uint32_t>(rows.size()) * (sampler ? sampler->SlotsPerRow() : 1);
}

void PassState::AddInput(std::span<const uint32_t> more) {
  for (const uint32_t token : more) {
    positions.push_back(start + static_cast<uint32_t>(tokens.size()));
    tokens.push_back(token);
  }
}

Task<Result<raw::Output>> RunPass(std::shared_ptr<PassState> state) {
  ContextState& context = *state->context;
  PIE_TRY(context.TakeFault());
  if (!state->fault.empty()) co_return Error(state->fault);
  if (std::exchange(state->executed, true))
    co_return Error("a pass is executed once: make another");
  const Extent before = context.Measure();
  const uint32_t length_before = context.LengthOf(before);
  const auto count = static_cast<uint32_t>(state->tokens.size());
  const uint32_t pages = PIE_TRY(context.Reserve(before, count + state->drafts.tokens.size()));
  Flight flight(context);
  std::optional<raw::ForwardPass> pass;
  const Sampler* const sampler = ShortStep(*state, length_before);
  if (sampler == nullptr) pass.emplace(PIE_TRY(Build(*state)));
  auto future = PIE_TRY(pass ? pass->Execute()
                             : pie::plus::steps::Begin(context.raw, state->tokens, state->mask,
                                                       state->seed, sampler->ToRaw()));
  Result<raw::Output> output =
      co_await (sampler != nullptr ? AwaitStep(std::move(future))
                                   : Await(std::move(future), SlotsWanted(*state)));
  if (!output) {
    const uint32_t length = context.SeqLen();
    if (length > length_before) context.Change().TruncateWorkingPageTokens(length - length_before);
  } else if (sampler != nullptr) {
    flight.Land({.committed_pages = before.committed_pages,
                 .working_pages = pages,
                 .working_tokens = before.working_tokens + count});
  }
  co_return output;
}

Result<raw::Chain> StartChain(const PassState& pass, uint32_t max_tokens,
                              std::span<const uint32_t> stops) {
  ContextState& context = *pass.context;
  PIE_TRY_SYNC(context.Reserve(context.Measure(), pass.tokens.size()));
  const raw::ForwardPass first = PIE_TRY_SYNC(Build(pass));
  return Lift(pie::plus::chains::Run(first, max_tokens, stops),
              [](raw::Chain&& chain) { return std::move(chain); });
}

Output ToOutput(raw::Output raw, const PassState& pass, std::optional<SampleHandle> auto_sampler) {
  std::vector<Output::SlotRange> ranges;
  uint32_t next = 0;
  // Every reader has a slot more for each draft that the engine kept.
  const size_t more = raw.slots.size() - SlotsWanted(pass);
  const auto kept = static_cast<uint32_t>(more / std::max<size_t>(1, pass.readers.size()));
  for (const Reader& reader : pass.readers) {
    const uint32_t count = reader.SlotCount() + kept;
    ranges.push_back({.first = next, .count = count});
    next += count;
  }
  return Output(std::move(raw), std::move(ranges), auto_sampler);
}

}  // namespace inferlet::detail
