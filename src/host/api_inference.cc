// pie:core/inference: forward passes and what they give; and pie:plus/sampling and outcome.
#include "host/api.h"
#include "host/execute.h"

namespace pie::host {

bool PassNew(void* guest, uint32_t model, uint32_t* pass, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    uint32_t* index = PIE_TRY(process.handles().models.Get(model));
    auto made = std::make_unique<Pass>();
    made->model = *index;
    made->charge = process.NewCharge();
    if (!Keep(process, *made, sizeof(Pass))) return Fail(Code::kExhausted, "{}", made->refusal);
    *pass = PIE_TRY(process.handles().passes.Insert(std::move(made)));
    return {};
  });
}

bool PassContext(void* guest, uint32_t pass, uint32_t context, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Pass* open = PIE_TRY(OpenPass(process, pass));
    Context* chosen = PIE_TRY(process.handles().contexts.Get(context));
    if (chosen->model() != open->model) {
      return Fail(Code::kInvalid, "the context belongs to another model than the pass");
    }
    open->context = {context, chosen->sequence()};
    return {};
  });
}

bool PassInputTokens(void* guest, uint32_t pass, Words tokens, Words positions, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Pass* open = PIE_TRY(OpenPass(process, pass));
    if (tokens.len != positions.len) {
      return Fail(Code::kInvalid, "{} tokens with {} positions", tokens.len, positions.len);
    }
    Forward& forward = open->forward;
    if (forward.tokens.size() + tokens.len > process.engine().limits().max_pass_tokens) {
      return Fail(Code::kExhausted, "a pass has at most {} input tokens",
                  process.engine().limits().max_pass_tokens);
    }
    if (!Keep(process, *open, 2 * tokens.len * sizeof(uint32_t))) return {};
    forward.tokens.insert(forward.tokens.end(), tokens.ptr, tokens.ptr + tokens.len);
    forward.positions.insert(forward.positions.end(), positions.ptr, positions.ptr + positions.len);
    return {};
  });
}

bool PassInputSpeculativeTokens(void* guest, uint32_t pass, Words tokens, Words, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Pass* open = PIE_TRY(OpenPass(process, pass));
    if (tokens.len > 0) {
      open->refusal = "speculation: this engine does not verify drafts yet; pass them as input";
    }
    return {};
  });
}

bool PassOutputSpeculativeTokens(void* guest, uint32_t pass, bool enable, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Pass* open = PIE_TRY(OpenPass(process, pass));
    if (enable) open->refusal = "speculation: this engine has no drafter of its own yet";
    return {};
  });
}

bool PassAttentionMask(void* guest, uint32_t pass, const Words* rows, size_t count, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Pass* open = PIE_TRY(OpenPass(process, pass));
    if (count > process.engine().limits().max_pass_tokens) {
      return Fail(Code::kExhausted, "{} attention rows are too many", count);
    }
    size_t bytes = 0;
    for (const Words& row : std::span(rows, count)) bytes += sizeof(Brle) + row.len * 4;
    if (!Keep(process, *open, bytes)) return {};
    auto& attention = open->forward.attention;
    attention.clear();
    for (const Words& row : std::span(rows, count)) {
      attention.emplace_back(row.ptr, row.ptr + row.len);
    }
    return {};
  });
}

bool PassLogitMask(void* guest, uint32_t pass, Words mask, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Pass* open = PIE_TRY(OpenPass(process, pass));
    if (!Keep(process, *open, mask.len * sizeof(uint32_t))) return {};
    open->forward.logit_mask.assign(mask.ptr, mask.ptr + mask.len);
    return {};
  });
}

bool PassSampler(void* guest, uint32_t pass, Words rows, const pie_bridge::Sampler* sampler,
                 Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    AddSampler(process, *PIE_TRY(OpenPass(process, pass)), rows, *sampler);
    return {};
  });
}

bool PassSeed(void* guest, uint32_t pass, uint64_t seed, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Pass* open = PIE_TRY(OpenPass(process, pass));
    open->forward.seed = seed;
    open->seeded = true;
    return {};
  });
}

bool PassExecute(void* guest, uint32_t pass, uint32_t* future, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    Pass* open = PIE_TRY(OpenPass(process, pass));
    PIE_RETURN_IF_ERROR(Validate(*open, InfoOf(process, *open)));
    Context* context = PIE_TRY(ContextOf(process, *open));
    *future = PIE_TRY(Execute(process, *open, *context));
    return {};
  });
}

bool OutputGet(void* guest, uint32_t future, bool* ready, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PassOutput& output = **PIE_TRY(process.handles().outputs.Get(future));
    *ready = output.ready.load(std::memory_order_acquire) && !output.taken;
    if (!*ready) return {};
    if (output.result) PutSlots(out, TakeSlots(process, output));
    return {};
  });
}

bool OutputFailure(void* guest, uint32_t future, bool* failed, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PassOutput& output = **PIE_TRY(process.handles().outputs.Get(future));
    *failed = output.ready.load(std::memory_order_acquire) && !output.result;
    if (*failed) PutText(out, output.result.error().text);
    return {};
  });
}

}  // namespace pie::host
