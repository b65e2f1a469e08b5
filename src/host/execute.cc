#include "host/execute.h"

#include <algorithm>

#include "sched/pass.h"

namespace pie::host {
namespace {

SampleSpec ToSpec(const pie_bridge::Sampler& sampler) {
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
      spec.kind = Kind::kEmbedding;
      break;
    case In::Distribution:
      spec.kind = Kind::kDistribution;
      break;
    case In::Logits:
      spec.kind = Kind::kLogits;
      break;
    case In::Logprobs:
      spec.kind = Kind::kLogprobs;
      break;
    case In::Entropy:
      spec.kind = Kind::kEntropy;
      break;
  }
  return spec;
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
  pass.Refuse(PassMemoryLimit(process).error());
  return false;
}

void AddInput(Process& process, Pass& pass, std::span<const uint32_t> tokens,
              std::span<const uint32_t> positions) {
  if (tokens.size() != positions.size()) {
    pass.Refuse({Code::kInvalid, fmt::format("{} positions for {} tokens: give one position for "
                                             "each token",
                                             positions.size(), tokens.size())});
    return;
  }
  if (!Keep(process, pass, tokens.size_bytes() + positions.size_bytes())) return;
  Forward& forward = pass.forward;
  forward.tokens.insert(forward.tokens.end(), tokens.begin(), tokens.end());
  forward.positions.insert(forward.positions.end(), positions.begin(), positions.end());
}

void AddSampler(Process& process, Pass& pass, std::span<const uint32_t> rows,
                const pie_bridge::Sampler& sampler) {
  std::span<const uint32_t> ids;
  if (sampler.kind == pie_bridge::SamplerKind::Logprobs) {
    ids = {sampler.tokens.ptr, sampler.tokens.len};
  }
  if (!Keep(process, pass, sizeof(SampleSpec) + rows.size_bytes() + ids.size_bytes())) return;
  SampleSpec& spec = pass.forward.samples.emplace_back(ToSpec(sampler));
  spec.rows.assign(rows.begin(), rows.end());
  spec.ids.assign(ids.begin(), ids.end());
}

Status Check(Process& process, const Pass& pass) {
  if (pass.refusal) return std::unexpected(*pass.refusal);
  return Validate(pass.forward, InfoOf(process, pass));
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
  const ResultSize size = SizeOfResult(pass.forward.samples, InfoOf(process, pass).vocab_size);
  if (!output->charge.Grow(sizeof(PassOutput) + size.bytes())) {
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
