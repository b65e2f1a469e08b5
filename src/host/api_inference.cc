// pie:core/inference: forward passes and their results; pie:plus/sampling and pie:plus/outcome.
#include "base/brle.h"
#include "host/api.h"
#include "host/execute.h"

namespace pie::host {

Result<uint32_t> ForwardPassNew(Process& process, uint32_t model) {
  const uint32_t index = PIE_TRY(ModelIndex(process, model));
  auto made = std::make_unique<Pass>();
  made->model = index;
  made->charge = process.NewCharge();
  if (!Keep(process, *made, sizeof(Pass))) return std::unexpected(*made->refusal);
  return process.handles().passes.Insert(std::move(made));
}

Status ForwardPassContext(Process& process, uint32_t pass, uint32_t context) {
  Pass* open = PIE_TRY(OpenPass(process, pass));
  Context* chosen = PIE_TRY(process.handles().contexts.Get(context));
  if (chosen->model() != open->model) {
    open->Refuse({Code::kInvalid, "the context belongs to another model than the pass"});
  }
  open->context = {context, chosen->sequence()};
  return {};
}

Status ForwardPassInputTokens(Process& process, uint32_t pass, std::span<const uint32_t> tokens,
                              std::span<const uint32_t> positions) {
  AddInput(process, *PIE_TRY(OpenPass(process, pass)), tokens, positions);
  return {};
}

Status ForwardPassInputSpeculativeTokens(Process& process, uint32_t pass,
                                         std::span<const uint32_t> tokens,
                                         std::span<const uint32_t> positions) {
  Pass* open = PIE_TRY(OpenPass(process, pass));
  if (tokens.size() != positions.size()) {
    open->Refuse({Code::kInvalid, fmt::format("{} positions for {} draft tokens: give one position "
                                              "for each token",
                                              positions.size(), tokens.size())});
    return {};
  }
  if (!Keep(process, *open, tokens.size_bytes() + positions.size_bytes())) return {};
  open->drafts.assign(tokens.begin(), tokens.end());
  open->draft_positions.assign(positions.begin(), positions.end());
  return {};
}

Status ForwardPassOutputSpeculativeTokens(Process& process, uint32_t pass, bool enable) {
  PIE_TRY(OpenPass(process, pass))->wants_drafts = enable;
  return {};
}

Status ForwardPassAttentionMask(Process& process, uint32_t pass, std::span<const Words> rows) {
  Pass* open = PIE_TRY(OpenPass(process, pass));
  size_t bytes = 0;
  for (const Words& row : rows) bytes += sizeof(Brle) + row.len * 4;
  if (!Keep(process, *open, bytes)) return {};
  auto& attention = open->forward.attention;
  attention.clear();
  const uint32_t limit = InfoOf(process, *open).max_positions;
  for (const Words& row : rows) attention.push_back(BrleShortest({row.ptr, row.len}, limit));
  return {};
}

Status ForwardPassLogitMask(Process& process, uint32_t pass, std::span<const uint32_t> mask) {
  Pass* open = PIE_TRY(OpenPass(process, pass));
  if (!Keep(process, *open, mask.size() * sizeof(uint32_t))) return {};
  open->forward.logit_mask = BrleShortest(mask, InfoOf(process, *open).vocab_size);
  return {};
}

Status ForwardPassSampler(Process& process, uint32_t pass, std::span<const uint32_t> rows,
                          const pie_bridge::Sampler& sampler) {
  AddSampler(process, *PIE_TRY(OpenPass(process, pass)), rows, sampler);
  return {};
}

Status SamplingSeed(Process& process, uint32_t pass, uint64_t seed) {
  Pass* open = PIE_TRY(OpenPass(process, pass));
  open->forward.seed = seed;
  open->seeded = true;
  return {};
}

Result<uint32_t> ForwardPassExecute(Process& process, uint32_t pass) {
  Pass* open = PIE_TRY(OpenPass(process, pass));
  ReadLastRow(process, *open);
  PIE_RETURN_IF_ERROR(Check(process, *open));
  Context* context = PIE_TRY(ContextOf(process, *open));
  return Execute(process, *open, *context);
}

Status ForwardPassDrop(Process& process, uint32_t pass) {
  process.handles().passes.Remove(pass);
  return {};
}

Result<const pie_bridge::Signal*> FutureOutputPollable(Process& process, uint32_t future) {
  return (*PIE_TRY(process.handles().outputs.Get(future)))->signal.raw();
}

Result<std::optional<InferenceOutput>> FutureOutputGet(Process& process, uint32_t future) {
  PassOutput& output = **PIE_TRY(process.handles().outputs.Get(future));
  if (!output.ready.load(std::memory_order_acquire) || output.taken) return std::nullopt;
  if (!output.result) return InferenceOutput{};
  return OutputOf(process, output);
}

Status FutureOutputDrop(Process& process, uint32_t future) {
  process.handles().outputs.Remove(future);
  return {};
}

Result<std::optional<std::string>> OutcomeFailure(Process& process, uint32_t future) {
  PassOutput& output = **PIE_TRY(process.handles().outputs.Get(future));
  if (!output.ready.load(std::memory_order_acquire) || output.result) return std::nullopt;
  return output.result.error().text;
}

}  // namespace pie::host
