// pie:plus/steps: a pass in two calls, or in one.
#include <limits>
#include <numeric>

#include "base/brle.h"
#include "host/api.h"
#include "host/execute.h"

namespace pie::host {
namespace {

constexpr uint32_t kFailed = std::numeric_limits<uint32_t>::max();

// Makes a pass that appends the tokens to the context. It has no sampler yet.
Result<Pass> NewStep(Process& process, const Context& context, std::span<const uint32_t> tokens,
                     std::span<const uint32_t> logit_mask, std::optional<uint64_t> seed) {
  Pass pass;
  pass.model = context.model();
  pass.charge = process.NewCharge();
  if (!Keep(process, pass, sizeof(Pass) + 2 * tokens.size_bytes() + logit_mask.size_bytes())) {
    return std::unexpected(*pass.refusal);
  }
  Forward& forward = pass.forward;
  forward.tokens.assign(tokens.begin(), tokens.end());
  forward.positions.resize(tokens.size());
  std::iota(forward.positions.begin(), forward.positions.end(), context.tokens());
  forward.logit_mask = BrleShortest(logit_mask, InfoOf(process, pass).vocab_size);
  if (seed) {
    forward.seed = *seed;
    pass.seeded = true;
  }
  return pass;
}

// Returns whether a pass with this sampler chooses exactly one token.
bool ChoosesOne(const SampleSpec& sampler) {
  using Kind = SampleSpec::Kind;
  switch (sampler.kind) {
    case Kind::kMultinomial:
    case Kind::kTopK:
    case Kind::kTopP:
    case Kind::kMinP:
    case Kind::kTopKTopP:
      return sampler.draws == 1;
    default:
      return false;
  }
}

Result<uint32_t> BeginAgain(Process& process, Context& context, uint32_t token) {
  StepRecipe& recipe = context.step_recipe();
  if (!recipe.sampler) {
    return Fail(Code::kInvalid,
                "there is no step to repeat: call begin first, without a mask and with a sampler "
                "that chooses one token");
  }
  Pass pass = PIE_TRY(NewStep(process, context, {&token, 1}, {}, recipe.seed));
  SampleSpec& sampler = pass.forward.samples.emplace_back(*recipe.sampler);
  sampler.rows = {0};
  PIE_RETURN_IF_ERROR(Check(process, pass));
  const uint32_t future = PIE_TRY(Execute(process, pass, context));
  if (recipe.seed) ++*recipe.seed;
  return future;
}

}  // namespace

Result<uint32_t> StepsBegin(Process& process, uint32_t context, std::span<const uint32_t> tokens,
                            std::span<const uint32_t> logit_mask, std::optional<uint64_t> seed,
                            const pie_bridge::Sampler& sampler) {
  Context* chosen = PIE_TRY(process.handles().contexts.Get(context));
  Pass pass = PIE_TRY(NewStep(process, *chosen, tokens, logit_mask, seed));
  const uint32_t last_row = static_cast<uint32_t>(tokens.size()) - 1;
  AddSampler(process, pass, {&last_row, tokens.empty() ? 0U : 1U}, sampler);
  PIE_RETURN_IF_ERROR(Check(process, pass));
  StepRecipe recipe{.seed = seed ? std::optional(*seed + 1) : std::nullopt};
  const SampleSpec& spec = pass.forward.samples.front();
  if (logit_mask.empty() && ChoosesOne(spec)) recipe.sampler = spec;
  const uint32_t future = PIE_TRY(Execute(process, pass, *chosen));
  chosen->step_recipe() = std::move(recipe);
  return future;
}

Result<StepsGiven> StepsFinish(Process& process, uint32_t future, Wait& wait) {
  auto& outputs = process.handles().outputs;
  const std::shared_ptr<PassOutput> output = *PIE_TRY(outputs.Get(future));
  if (!output->ready.load(std::memory_order_acquire)) {
    wait.signal = output->signal.raw();
    return {};
  }
  outputs.Remove(future);
  if (output->taken) return Fail(Code::kInvalid, "the output of this pass was taken before");
  if (!output->result) return std::unexpected(std::move(output->result.error()));
  std::vector<Slot> slots = TakeSlots(process, *output);
  const auto* chosen = slots.size() == 1 ? std::get_if<TokenSlot>(slots.data()) : nullptr;
  if (chosen != nullptr) return StepsGivenToken{chosen->token};
  return StepsGivenOutput{{.slots = std::move(slots)}};
}

Result<uint32_t> StepsRepeat(Process& process, uint32_t context, uint32_t token, Wait& wait) {
  Context* chosen = PIE_TRY(process.handles().contexts.Get(context));
  StepRecipe& recipe = chosen->step_recipe();
  const auto fail = [&recipe](const Error& error) {
    recipe.future.reset();
    recipe.problem = error.text;
    return kFailed;
  };
  if (!recipe.future) {  // This function is called again when the pass has run.
    recipe.problem.reset();
    const Result<uint32_t> future = BeginAgain(process, *chosen, token);
    if (!future) return fail(future.error());
    recipe.future = *future;
  }
  const Result<StepsGiven> given = StepsFinish(process, *recipe.future, wait);
  if (!given) return fail(given.error());
  if (wait.signal != nullptr) return 0;  // The guest does not get this answer.
  recipe.future.reset();
  return std::get<StepsGivenToken>(*given).value;
}

Result<std::optional<std::string>> StepsProblem(Process& process, uint32_t context) {
  Context* chosen = PIE_TRY(process.handles().contexts.Get(context));
  return chosen->step_recipe().problem;
}

}  // namespace pie::host
