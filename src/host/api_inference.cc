// pie:core/inference: forward passes and what they give; and pie:plus/sampling and outcome.
#include <algorithm>
#include <cmath>

#include "host/api.h"
#include "host/execute.h"

namespace pie::host {
namespace {

Result<SampleSpec> ToSpec(const pie_bridge::Sampler& sampler, uint32_t vocab_size) {
  using In = pie_bridge::SamplerKind;
  using Kind = SampleSpec::Kind;
  SampleSpec spec{.temperature = sampler.temperature, .k = sampler.count, .p = sampler.p};
  switch (sampler.kind) {
    case In::Multinomial:
      spec.kind = Kind::kMultinomial;
      spec.draws = std::max(sampler.count, 1u);
      spec.k = 0;
      break;
    case In::TopK:
      spec.kind = Kind::kTopK;
      break;
    case In::TopP:
      spec.kind = Kind::kTopP;
      break;
    case In::MinP:
      spec.kind = Kind::kMinP;
      break;
    case In::TopKTopP:
      spec.kind = Kind::kTopKTopP;
      break;
    case In::Embedding:
      return Fail(Code::kUnavailable, "embedding: this model gives no embeddings");
    case In::Distribution:
      spec.kind = Kind::kDistribution;
      break;
    case In::Logits:
      spec.kind = Kind::kLogits;
      break;
    case In::Logprobs:
      spec.kind = Kind::kLogprobs;
      for (uint32_t token : View(sampler.tokens)) {
        if (token >= vocab_size) {
          return Fail(Code::kInvalid, "logprobs: token {} is not in the vocabulary of {}", token,
                      vocab_size);
        }
        spec.ids.push_back(token);
      }
      break;
    case In::Entropy:
      spec.kind = Kind::kEntropy;
      break;
  }
  if (!std::isfinite(spec.temperature) || spec.temperature < 0) {
    return Fail(Code::kInvalid, "the temperature must be 0 or more, not {}", spec.temperature);
  }
  if (!(spec.p >= 0 && spec.p <= 1)) {
    return Fail(Code::kInvalid, "p must be between 0 and 1, not {}", spec.p);
  }
  return spec;
}

// Counts what the pass keeps in the engine until it has run. Past the limit it is refused by
// `execute`, where the guest can handle it.
bool Keep(Process& process, Pass& pass, size_t bytes) {
  if (pass.charge.Grow(bytes)) return true;
  pass.refusal = PassMemoryLimit(process).error().text;
  return false;
}

// What the results of a pass take, about.
size_t ResultBytes(const Forward& forward, uint32_t vocab_size) {
  size_t bytes = 0;
  for (const SampleSpec& spec : forward.samples) {
    size_t values = 0;
    if (spec.kind == SampleSpec::Kind::kLogits) values = vocab_size;
    if (spec.kind == SampleSpec::Kind::kDistribution) {
      values = 2 * size_t{spec.k == 0 ? vocab_size : std::min(spec.k, vocab_size)};
    }
    if (spec.kind == SampleSpec::Kind::kLogprobs) values = spec.ids.size();
    bytes += spec.rows.size() * spec.draws * (sizeof(Slot) + values * sizeof(float));
  }
  return bytes;
}

bool IsToken(const Slot& slot) {
  return std::holds_alternative<TokenSlot>(slot);
}

// Takes the result of a pass on the step thread. One that never ran (its context was destroyed)
// fails: whoever waits must hear of it.
class Completion {
 public:
  Completion(std::shared_ptr<PassOutput> output, Charge input, std::shared_ptr<Pace> pace)
      : output_(std::move(output)), input_(std::move(input)), pace_(std::move(pace)) {}
  Completion(Completion&&) noexcept = default;
  Completion& operator=(Completion&&) = delete;
  ~Completion() {
    if (output_) {
      (*this)(Fail(Code::kCancelled, "the context was destroyed before this pass had run"));
    }
  }
  void operator()(Result<std::vector<Slot>> result) {
    const auto output = std::move(output_);
    output->ended_ns = SteadyClock::Get().NowNs();
    if (result && std::ranges::any_of(*result, IsToken)) pace_->OnTokens(output->ended_ns);
    output->result = std::move(result);
    output->ready.store(true, std::memory_order_release);
    output->signal.Fire();
  }

 private:
  std::shared_ptr<PassOutput> output_;
  Charge input_;
  std::shared_ptr<Pace> pace_;
};

void PutSlots(Out* out, const std::vector<Slot>& slots) {
  struct {
    Out* out;
    void operator()(const TokenSlot& s) { pie_bridge::pie_slot_token(out, s.token); }
    void operator()(const DistributionSlot& s) {
      pie_bridge::pie_slot_distribution(out, s.ids.data(), s.probs.data(), s.ids.size());
    }
    void operator()(const LogitsSlot& s) {
      pie_bridge::pie_slot_logits(out, s.logits.data(), s.logits.size());
    }
    void operator()(const LogprobsSlot& s) {
      pie_bridge::pie_slot_logprobs(out, s.logprobs.data(), s.logprobs.size());
    }
    void operator()(const EntropySlot& s) { pie_bridge::pie_slot_entropy(out, s.entropy); }
  } put{out};
  for (const Slot& slot : slots) std::visit(put, slot);
}

}  // namespace

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
    Pass* open = PIE_TRY(OpenPass(process, pass));
    const BackendInfo& info = process.engine().models()[open->model].scheduler->info();
    auto spec = ToSpec(*sampler, info.vocab_size);
    if (!spec) {
      // Not here, where an error would trap, but from `execute`, where the guest can handle it.
      open->refusal = spec.error().text;
      return {};
    }
    const size_t words = rows.len + spec->ids.size();
    if (!Keep(process, *open, sizeof(SampleSpec) + words * sizeof(uint32_t))) return {};
    spec->rows.assign(rows.ptr, rows.ptr + rows.len);
    open->slots += uint64_t{spec->draws} * rows.len;
    if (open->slots > process.engine().limits().max_pass_slots) {
      open->refusal = fmt::format("a pass gives at most {} slots, this one asks for {}",
                                  process.engine().limits().max_pass_slots, open->slots);
      return {};
    }
    open->forward.samples.push_back(*std::move(spec));
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
    const BackendInfo& info = process.engine().models()[open->model].scheduler->info();
    PIE_RETURN_IF_ERROR(Validate(*open, info));
    Context* context = PIE_TRY(ContextOf(process, *open));
    PIE_RETURN_IF_ERROR(
        ChargeTokens(process.options().token_budget.get(), open->forward.tokens.size()));
    auto output = std::make_shared<PassOutput>();
    output->charge = process.NewCharge();
    if (!output->charge.Grow(sizeof(PassOutput) + ResultBytes(open->forward, info.vocab_size))) {
      return PassMemoryLimit(process);
    }
    uint32_t handle = PIE_TRY(process.handles().outputs.Emplace(output));
    Forward forward = std::move(open->forward);
    if (!open->seeded) forward.seed = process.NextSeed();
    forward.done = Completion(output, std::move(open->charge), process.pace());
    open->executed = true;
    if (Status queued = context->Execute(std::move(forward)); !queued) {
      process.handles().outputs.Remove(handle);
      return queued;
    }
    *future = handle;
    return {};
  });
}

bool OutputGet(void* guest, uint32_t future, bool* ready, Out* out) {
  return Answer(guest, out, [&](Process& process) -> Status {
    PassOutput& output = **PIE_TRY(process.handles().outputs.Get(future));
    *ready = output.ready.load(std::memory_order_acquire) && !output.taken;
    if (!*ready) return {};
    if (output.result) {
      process.pace()->OnWakeUp(output.ended_ns);
      PutSlots(out, *output.result);
      output.result->clear();
      output.charge.Release();
      output.taken = true;
    }
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
