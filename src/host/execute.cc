#include "host/execute.h"

#include "sched/pass.h"

namespace pie::host {

Result<Pass*> OpenPass(Process& process, uint32_t handle) {
  Pass* pass = PIE_TRY(process.handles().passes.Get(handle));
  if (pass->executed) {
    return Fail(Code::kInvalid, "this pass was executed already; make a new one");
  }
  return pass;
}

Status Validate(const Pass& pass, const BackendInfo& info) {
  const Forward& forward = pass.forward;
  if (!pass.refusal.empty()) return Fail(Code::kUnavailable, "{}", pass.refusal);
  if (forward.tokens.empty()) {
    return Fail(Code::kInvalid, "empty input: a pass needs at least one token");
  }
  for (uint32_t token : forward.tokens) {
    if (token >= info.vocab_size) {
      return Fail(Code::kInvalid, "token {} is not in the vocabulary of {}", token,
                  info.vocab_size);
    }
  }
  for (uint32_t position : forward.positions) {
    if (position >= info.max_positions) {
      return Fail(Code::kInvalid, "position {} is past this model's {} positions", position,
                  info.max_positions);
    }
  }
  if (!forward.attention.empty() && forward.attention.size() != forward.tokens.size()) {
    return Fail(Code::kInvalid, "{} attention rows for {} input tokens", forward.attention.size(),
                forward.tokens.size());
  }
  for (const SampleSpec& spec : forward.samples) {
    for (uint32_t row : spec.rows) {
      if (row >= forward.tokens.size()) {
        return Fail(Code::kInvalid, "row {} is sampled, but there are {} input tokens", row,
                    forward.tokens.size());
      }
    }
  }
  // What the scheduler would find: there it would cost the context.
  if (auto fault = FindFault(forward, info)) return std::unexpected(*std::move(fault));
  return {};
}

Result<Context*> ContextOf(Process& process, const Pass& pass) {
  if (!pass.context) return Fail(Code::kInvalid, "the pass has no context");
  Context* context = PIE_TRY(process.handles().contexts.Get(pass.context->handle));
  if (context->sequence() != pass.context->sequence) {
    return Fail(Code::kInvalid, "the pass's context was dropped");
  }
  return context;
}

Status ChargeTokens(ByteBudget* budget, size_t tokens) {
  if (budget == nullptr || budget->Take(tokens)) return {};
  return Fail(Code::kExhausted, "token budget: {} of {} tokens are used, this pass asks for {}",
              budget->used(), budget->limit(), tokens);
}

std::unexpected<Error> PassMemoryLimit(Process& process) {
  return Fail(Code::kExhausted,
              "memory limit: the passes and unread results of an inferlet have {} MiB",
              process.engine().limits().max_pass_bytes >> 20);
}

}  // namespace pie::host
