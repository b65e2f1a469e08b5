#include "host/execute.h"

#include <algorithm>
#include <numeric>

#include "host/matcher_rules.h"
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

// The memory of the attention mask of each row.
std::vector<size_t> MaskBytes(const Forward& forward) {
  std::vector<size_t> bytes;
  for (const Brle& mask : forward.attention) {
    bytes.push_back(sizeof(Brle) + mask.size() * sizeof(uint32_t));
  }
  return bytes;
}

bool IsToken(const Slot& slot) {
  return std::holds_alternative<TokenSlot>(slot);
}

// Receives the result of a pass on the step thread. If the pass never runs, because its context was
// destroyed, the destructor reports an error, so that the guest does not wait for ever.
class Completion {
 public:
  Completion(std::shared_ptr<PassOutput> output, Charge input, Charge counted,
             std::shared_ptr<Pace> pace)
      : output_(std::move(output)),
        input_(std::move(input)),
        counted_(std::move(counted)),
        pace_(std::move(pace)) {}
  Completion(Completion&&) noexcept = default;
  Completion& operator=(Completion&&) = delete;
  ~Completion() {
    if (output_) {
      (*this)(Fail(Code::kCancelled, "the context was destroyed before this pass had run"));
    }
  }
  void operator()(Result<std::vector<Slot>> result) {
    const auto output = std::move(output_);
    if (output->verdict) {
      const auto chosen = result ? std::ranges::count_if(*result, IsToken) : 1;
      output->verdict->kept = static_cast<uint32_t>(std::max<std::ptrdiff_t>(chosen, 1)) - 1;
      output->verdict->ready.store(true, std::memory_order_release);
    }
    output->ended_ns = SteadyClock::Get().NowNs();
    if (result && std::ranges::any_of(*result, IsToken)) pace_->OnTokens(output->ended_ns);
    output->result = std::move(result);
    counted_.Release();  // before the guest may execute the next one
    output->ready.store(true, std::memory_order_release);
    output->signal.Fire();
  }

 private:
  std::shared_ptr<PassOutput> output_;
  Charge input_, counted_;
  std::shared_ptr<Pace> pace_;
};

// Fixes the version of the adapter: the pass runs with the present one, even if the adapter changes
// later.
Status UseAdapter(Pass& pass) {
  if (!pass.adapter) {
    if (!pass.zo_seed) return {};
    return Fail(Code::kInvalid, "the pass has a zo seed, but no adapter that it could perturb");
  }
  const auto version = PIE_TRY(pass.adapter->current());
  if (pass.zo_seed && version->zo.population == 0) {
    return Fail(Code::kInvalid,
                "the pass has a zo seed, but adapter '{}' is not being tuned: call zo.initialize",
                pass.adapter->name());
  }
  pass.forward.adapter_weights = version->device;
  pass.forward.adapter = {};
  if (!version->device) return {};
  pass.forward.adapter.version = version->number;
  if (pass.zo_seed.value_or(0) != 0 && version->zo.sigma != 0) {
    pass.forward.adapter.seed = *pass.zo_seed;
    pass.forward.adapter.sigma = version->zo.sigma;
  }
  return {};
}

}  // namespace

Status CheckTokenCount(Process& process, std::span<const uint32_t> tokens) {
  const size_t most = process.engine().limits().max_tokens_per_call;
  if (tokens.size() <= most) return {};
  return Fail(Code::kExhausted, "the call has {} tokens; at most {} are allowed", tokens.size(),
              most);
}

Status CheckName(std::string_view name) {
  constexpr size_t kMostBytes = 4'096;
  if (name.size() <= kMostBytes) return {};
  return Fail(Code::kInvalid, "the name or path has {} bytes; at most {} are allowed", name.size(),
              kMostBytes);
}

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
  // Checked for each input: the counts of two inputs could make up for each other.
  if (const Status status = CheckPositionCount(tokens.size(), positions.size()); !status) {
    return pass.Refuse(status.error());
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

void ReadLastRow(Process& process, Pass& pass) {
  Forward& forward = pass.forward;
  if (!forward.tokens.empty() || forward.samples.empty() || !pass.drafts.empty()) return;
  const Result<Context*> context = ContextOf(process, pass);
  if (!context || (*context)->tokens() == 0) return;  // Check or the caller reports the error
  // These are placeholders: the scheduler replaces them by the row's token and position.
  forward.tokens = {0};
  forward.positions = {(*context)->tokens() - 1};
  forward.repeats_last = true;
}

Status Check(Process& process, Pass& pass) {
  if (pass.refusal) return std::unexpected(*pass.refusal);
  PIE_RETURN_IF_ERROR(UseAdapter(pass));
  return Validate(pass.forward, InfoOf(process, pass));
}

void MakeRules(Process& process, Pass& pass) {
  if (pass.matchers.empty()) return;
  pass.forward.rules = std::make_shared<MatcherRules>(
      std::move(pass.matchers), pass.forward.logit_mask, InfoOf(process, pass).vocab_size,
      MatcherRules::Owner{.user = process.user()->name,
                          .masks = process.engine().mask_work(),
                          .ahead = &process.engine().rules_work(),
                          .lent = process.user()->lent,
                          .charge = process.NewCharge()});
}

Status AddDrafts(Process& process, Pass& pass, uint32_t step, uint32_t row) {
  const BackendInfo& info = InfoOf(process, pass);
  Forward& forward = pass.forward;
  for (const uint32_t token : pass.drafts) PIE_RETURN_IF_ERROR(CheckToken(token, info.vocab_size));
  for (const uint32_t position : pass.draft_positions) {
    PIE_RETURN_IF_ERROR(CheckPosition(position, info));
  }
  PIE_RETURN_IF_ERROR(CheckLength(forward.tokens.size() + pass.drafts.size(), info));
  std::vector<uint32_t> draft = pass.drafts;
  if (forward.rules) forward.rules->Prepare(draft);
  AppendDrafts(forward, draft, &pass.draft_positions);
  if (!draft.empty() || step > 0) SetDraws(forward, step, row);
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

namespace {

// Makes a pass with drafts a chain of one pass: the scheduler returns the tokens that were chosen.
Status MakeSingle(Process& process, Pass& pass, const std::shared_ptr<PassOutput>& output) {
  Forward& forward = pass.forward;
  forward.chain = std::make_unique<Chain>();
  Chain& chain = *forward.chain;
  chain.max_tokens = UINT32_MAX;
  chain.single = true;
  chain.seed = [seed = forward.seed](uint32_t step) { return seed + step; };
  chain.give = [](uint32_t, std::optional<Chain::End>) {};  // the tokens are in the result
  if (pass.wants_drafts) {
    chain.speculate = true;
    chain.recent = process.engine().RecentOf(process.options().username, pass.model);
    chain.propose = [to = output.get()](std::vector<uint32_t> draft, uint32_t position) {
      to->drafts = std::move(draft);
      to->draft_position = position;
    };
  }
  PIE_RETURN_IF_ERROR(CheckChain(forward));
  output->verdict = std::make_shared<DraftVerdict>();
  PIE_RETURN_IF_ERROR(
      AddDrafts(process, pass, 0, static_cast<uint32_t>(forward.tokens.size()) - 1));
  // Check has found the pass itself valid; but its samplers and probes read the drafts too.
  return forward.drafts == 0 ? Status() : Validate(forward, InfoOf(process, pass));
}

// Whether the engine can guess the tokens after the pass.
bool MayPropose(const Pass& pass) {
  const Forward& forward = pass.forward;
  return pass.wants_drafts && forward.attention.empty() && ChooserOf(forward);
}

}  // namespace

Result<uint32_t> Execute(Process& process, Pass& pass, Context& context) {
  Charge counted = PIE_TRY(CountPass(process));
  PIE_RETURN_IF_ERROR(
      ChargeTokens(process.options().token_budget.get(), pass.forward.tokens.size()));
  auto output = std::make_shared<PassOutput>();
  output->charge = process.NewCharge();
  if (!pass.seeded) pass.forward.seed = process.NextSeed();
  MakeRules(process, pass);
  if (!pass.drafts.empty() || MayPropose(pass)) {
    PIE_RETURN_IF_ERROR(MakeSingle(process, pass, output));
  } else if (pass.forward.rules) {
    std::vector<uint32_t> no_draft;
    pass.forward.rules->Prepare(no_draft);
  }
  const ResultSize size = SizeOfResult(pass.forward.samples, InfoOf(process, pass));
  if (!output->charge.Grow(sizeof(PassOutput) + size.bytes())) {
    return PassMemoryLimit(process);
  }
  // The context keeps the attention masks of its rows, so they are charged to the context below.
  const std::vector<size_t> bytes_of_masks = MaskBytes(pass.forward);
  const size_t mask_bytes =
      std::accumulate(bytes_of_masks.begin(), bytes_of_masks.end(), size_t{0});
  const size_t most_mask_bytes = process.engine().limits().max_mask_bytes;
  if (mask_bytes > most_mask_bytes - std::min(context.mask_bytes(), most_mask_bytes)) {
    return Fail(
        Code::kExhausted,
        "the attention masks of a context would take {} KiB; at most {} KiB are allowed: use masks "
        "of fewer runs, or a new context",
        (context.mask_bytes() + mask_bytes) >> 10, most_mask_bytes >> 10);
  }
  Charge masks = process.NewCharge();
  if (!masks.Grow(mask_bytes)) return PassMemoryLimit(process);
  const uint32_t handle = PIE_TRY(process.handles().outputs.Emplace(output));
  Forward forward = std::move(pass.forward);
  forward.done = Completion(output, std::move(pass.charge), std::move(counted), process.pace());
  pass.executed = true;
  Status queued = output->verdict ? context.ExecuteDrafts(std::move(forward), output->verdict)
                                  : context.Execute(std::move(forward));
  if (!queued) {
    process.handles().outputs.Remove(handle);
    return std::unexpected(std::move(queued.error()));
  }
  context.KeepMasks(std::move(masks), bytes_of_masks);
  return handle;
}

std::vector<Slot> TakeSlots(Process& process, PassOutput& output) {
  process.pace()->OnWakeUp(output.ended_ns);
  output.charge.Release();
  output.taken = true;
  return std::exchange(*output.result, {});
}

InferenceOutput OutputOf(Process& process, PassOutput& output) {
  InferenceOutput given{.slots = TakeSlots(process, output),
                        .spec_tokens = std::move(output.drafts)};
  for (uint32_t i = 0; i < given.spec_tokens.size(); ++i) {
    given.spec_positions.push_back(output.draft_position + i);
  }
  return given;
}

Result<Charge> CountPass(Process& process) {
  Charge charge = ChargeTo(process.user(), &User::passes);
  if (charge.Grow(1)) return charge;
  const ByteBudget& own = process.user()->passes;
  return Fail(Code::kExhausted,
              "{} passes of your inferlets wait for the device or run, and {} of {} of all users: "
              "wait for some of them first",
              own.used(), own.whole().used(), own.whole().limit());
}

std::unexpected<Error> PassMemoryLimit(Process& process) {
  return Fail(Code::kExhausted,
              "memory limit: an inferlet may hold {} MiB of the engine's memory, and all inferlets "
              "of a user a share of {} MiB",
              process.engine().limits().max_inferlet_bytes >> 20,
              process.engine().limits().max_host_bytes >> 20);
}

}  // namespace pie::host
