// pie:plus/steps: a pass in two calls.
#include <numeric>

#include "host/api.h"
#include "host/execute.h"

namespace pie::host {

Result<uint32_t> StepsBegin(Process& process, uint32_t context, std::span<const uint32_t> tokens,
                            std::span<const uint32_t> logit_mask, std::optional<uint64_t> seed,
                            const pie_bridge::Sampler& sampler) {
  Context* chosen = PIE_TRY(process.handles().contexts.Get(context));
  Pass pass;
  pass.model = chosen->model();
  pass.charge = process.NewCharge();
  if (!Keep(process, pass, sizeof(Pass) + 2 * tokens.size_bytes() + logit_mask.size_bytes())) {
    return std::unexpected(*pass.refusal);
  }
  Forward& forward = pass.forward;
  forward.tokens.assign(tokens.begin(), tokens.end());
  forward.positions.resize(tokens.size());
  std::iota(forward.positions.begin(), forward.positions.end(), chosen->tokens());
  forward.logit_mask.assign(logit_mask.begin(), logit_mask.end());
  const uint32_t last_row = static_cast<uint32_t>(tokens.size()) - 1;
  AddSampler(process, pass, {&last_row, tokens.empty() ? 0U : 1U}, sampler);
  if (seed) {
    forward.seed = *seed;
    pass.seeded = true;
  }
  PIE_RETURN_IF_ERROR(Check(process, pass));
  return Execute(process, pass, *chosen);
}

Result<StepsGiven> StepsFinish(Process& process, uint32_t future, Wait& wait) {
  auto& outputs = process.handles().outputs;
  const std::shared_ptr<PassOutput> output = *PIE_TRY(outputs.Get(future));
  if (!output->ready.load(std::memory_order_acquire)) {
    wait.signal = output->signal.raw();
    return {};
  }
  outputs.Remove(future);
  if (output->taken) return Fail(Code::kInvalid, "what this pass gave was taken before");
  if (!output->result) return std::unexpected(std::move(output->result.error()));
  std::vector<Slot> slots = TakeSlots(process, *output);
  const auto* chosen = slots.size() == 1 ? std::get_if<TokenSlot>(slots.data()) : nullptr;
  if (chosen != nullptr) return StepsGivenToken{chosen->token};
  return StepsGivenOutput{{.slots = std::move(slots)}};
}

}  // namespace pie::host
