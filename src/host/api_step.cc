// pie:plus/steps: a pass in two calls.
#include <numeric>

#include "host/api.h"
#include "host/execute.h"

namespace pie::host {

bool StepBegin(void* guest, uint32_t context, Words tokens, Words logit_mask, const uint64_t* seed,
               const pie_bridge::Sampler* sampler, uint32_t* future, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Context* chosen = PIE_TRY(process.handles().contexts.Get(context));
    if (tokens.len > process.engine().limits().max_pass_tokens) {
      return Fail(Code::kExhausted, "a pass has at most {} input tokens",
                  process.engine().limits().max_pass_tokens);
    }
    Pass pass;
    pass.model = chosen->model();
    pass.charge = process.NewCharge();
    if (Keep(process, pass, sizeof(Pass) + (2 * tokens.len + logit_mask.len) * sizeof(uint32_t))) {
      Forward& forward = pass.forward;
      forward.tokens.assign(tokens.ptr, tokens.ptr + tokens.len);
      forward.positions.resize(tokens.len);
      std::iota(forward.positions.begin(), forward.positions.end(), chosen->tokens());
      forward.logit_mask.assign(logit_mask.ptr, logit_mask.ptr + logit_mask.len);
    }
    const uint32_t last_row = static_cast<uint32_t>(tokens.len) - 1;
    AddSampler(process, pass, {.ptr = &last_row, .len = tokens.len > 0 ? 1U : 0U}, *sampler);
    if (seed != nullptr) {
      pass.forward.seed = *seed;
      pass.seeded = true;
    }
    PIE_RETURN_IF_ERROR(Validate(pass, InfoOf(process, pass)));
    *future = PIE_TRY(Execute(process, pass, *chosen));
    return {};
  });
}

bool StepFinish(void* guest, uint32_t future, const pie_bridge::Signal** signal, bool* is_token,
                uint32_t* token, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    auto& outputs = process.handles().outputs;
    PassOutput& output = **PIE_TRY(outputs.Get(future));
    if (!output.ready.load(std::memory_order_acquire)) {
      *signal = output.signal.raw();
      return {};
    }
    Status status;
    if (output.taken) {
      status = Fail(Code::kInvalid, "what this pass gave was taken before");
    } else if (!output.result) {
      status = std::unexpected(std::move(output.result.error()));
    } else {
      const std::vector<Slot> slots = TakeSlots(process, output);
      const auto* chosen = slots.size() == 1 ? std::get_if<TokenSlot>(slots.data()) : nullptr;
      *is_token = chosen != nullptr;
      if (chosen != nullptr) {
        *token = chosen->token;
      } else {
        PutSlots(out, slots);
      }
    }
    outputs.Remove(future);
    return status;
  });
}

}  // namespace pie::host
