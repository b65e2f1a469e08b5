#include "host/execute.h"

#include <algorithm>
#include <cmath>

#include "sched/pass.h"

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

}  // namespace

Result<Pass*> OpenPass(Process& process, uint32_t handle) {
  Pass* pass = PIE_TRY(process.handles().passes.Get(handle));
  if (pass->executed) {
    return Fail(Code::kInvalid, "this pass was executed already; make a new one");
  }
  return pass;
}

const BackendInfo& InfoOf(Process& process, const Pass& pass) {
  return process.engine().models()[pass.model].scheduler->info();
}

bool Keep(Process& process, Pass& pass, size_t bytes) {
  if (pass.charge.Grow(bytes)) return true;
  pass.refusal = PassMemoryLimit(process).error().text;
  return false;
}

void AddSampler(Process& process, Pass& pass, std::span<const uint32_t> rows,
                const pie_bridge::Sampler& sampler) {
  auto spec = ToSpec(sampler, InfoOf(process, pass).vocab_size);
  if (!spec) {
    // Not here, where an error would trap, but from `execute`, where the guest can handle it.
    pass.refusal = spec.error().text;
    return;
  }
  const size_t words = rows.size() + spec->ids.size();
  if (!Keep(process, pass, sizeof(SampleSpec) + words * sizeof(uint32_t))) return;
  spec->rows.assign(rows.begin(), rows.end());
  pass.slots += uint64_t{spec->draws} * rows.size();
  if (pass.slots > process.engine().limits().max_pass_slots) {
    pass.refusal = fmt::format("a pass gives at most {} slots, this one asks for {}",
                               process.engine().limits().max_pass_slots, pass.slots);
    return;
  }
  pass.forward.samples.push_back(*std::move(spec));
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

Result<uint32_t> Execute(Process& process, Pass& pass, Context& context) {
  PIE_RETURN_IF_ERROR(
      ChargeTokens(process.options().token_budget.get(), pass.forward.tokens.size()));
  auto output = std::make_shared<PassOutput>();
  output->charge = process.NewCharge();
  const uint32_t vocab_size = InfoOf(process, pass).vocab_size;
  if (!output->charge.Grow(sizeof(PassOutput) + ResultBytes(pass.forward, vocab_size))) {
    return PassMemoryLimit(process);
  }
  const uint32_t handle = PIE_TRY(process.handles().outputs.Emplace(output));
  Forward forward = std::move(pass.forward);
  if (!pass.seeded) forward.seed = process.NextSeed();
  forward.done = Completion(output, std::move(pass.charge), process.pace());
  pass.executed = true;
  if (Status queued = context.Execute(std::move(forward)); !queued) {
    process.handles().outputs.Remove(handle);
    return std::unexpected(std::move(queued.error()));
  }
  return handle;
}

std::vector<Slot> TakeSlots(Process& process, PassOutput& output) {
  process.pace()->OnWakeUp(output.ended_ns);
  output.charge.Release();
  output.taken = true;
  return std::exchange(*output.result, {});
}

std::unexpected<Error> PassMemoryLimit(Process& process) {
  return Fail(Code::kExhausted,
              "memory limit: the passes and unread results of an inferlet have {} MiB",
              process.engine().limits().max_pass_bytes >> 20);
}

}  // namespace pie::host
