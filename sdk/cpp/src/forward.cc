#include "inferlet/forward.h"

#include "pass.h"

namespace inferlet {

using detail::PassState;

Forward::Forward(std::shared_ptr<detail::ContextState> context)
    : state_(std::make_shared<PassState>(std::move(context))) {}

Forward& Forward::Input(std::span<const uint32_t> tokens) {
  if (state_->scored > 0) state_->fault = "Input after InputAt: scored tokens come last in a pass";
  state_->AddInput(tokens);
  return *this;
}

Forward& Forward::InputAt(std::span<const uint32_t> tokens, std::span<const uint32_t> positions) {
  if (tokens.size() != positions.size()) {
    state_->fault = "InputAt with " + std::to_string(tokens.size()) + " tokens but " +
                    std::to_string(positions.size()) + " positions";
  }
  state_->tokens.insert(state_->tokens.end(), tokens.begin(), tokens.end());
  state_->positions.insert(state_->positions.end(), positions.begin(), positions.end());
  state_->scored += tokens.size();
  return *this;
}

Forward& Forward::AttentionMask(std::span<const std::vector<uint32_t>> rows) {
  state_->attention.assign(rows.begin(), rows.end());
  return *this;
}

Forward& Forward::Mask(std::span<const uint32_t> brle) {
  state_->mask.assign(brle.begin(), brle.end());
  return *this;
}

SampleHandle Forward::Sample(std::span<const uint32_t> rows, Sampler sampler) {
  if (auto fits = detail::CheckRanges(sampler); !fits) state_->fault = fits.error();
  state_->readers.push_back({.rows = {rows.begin(), rows.end()}, .what = sampler});
  return {{.id = static_cast<uint32_t>(state_->readers.size() - 1)}};
}

SlotHandle Forward::AddProbe(uint32_t row, inferlet::Probe probe) {
  if (auto fits = detail::CheckRanges(detail::ToRaw(probe)); !fits) state_->fault = fits.error();
  state_->readers.push_back({.rows = {row}, .what = std::move(probe)});
  return {.id = static_cast<uint32_t>(state_->readers.size() - 1)};
}

Forward& Forward::Adapter(const inferlet::Adapter& adapter) {
  state_->adapter = adapter;
  return *this;
}

Forward& Forward::ZoSeed(int64_t seed) {
  state_->zo_seed = seed;
  return *this;
}

Forward& Forward::Seed(uint64_t seed) {
  state_->seed = seed;
  return *this;
}

namespace {

Task<Result<Output>> ExecutePass(std::shared_ptr<PassState> pass) {
  raw::Output output = PIE_TRY(co_await detail::RunPass(pass));
  PIE_TRY(pass->context->Settle(pass->scored));
  co_return detail::ToOutput(std::move(output), *pass, std::nullopt);
}

}  // namespace

Task<Result<Output>> Forward::Execute() {
  return ExecutePass(state_);
}

uint32_t Forward::StartPosition() const {
  return state_->start;
}
uint32_t Forward::PageSize() const {
  return state_->context->page_size;
}

}  // namespace inferlet
