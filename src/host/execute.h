// Shared by the execution of a pass, a step and a chain.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "host/api.h"

namespace pie::host {

// Checks the number of tokens that a guest gives to be decoded.
Status CheckTokenCount(Process& process, std::span<const uint32_t> tokens);
// Checks the length of a name that a guest gives, before the name is copied into a queue.
Status CheckName(std::string_view name);
// Gives the process a handle of the grammar, which is charged to it.
Result<uint32_t> InsertGrammar(Process& process, Grammar grammar);
// The same for a matcher. `name` is its name in errors.
Result<uint32_t> InsertMatcher(Process& process, Matcher matcher, std::string name);
// Returns the pass. Fails if it was executed already, so that it cannot be changed any more.
Result<Pass*> OpenPass(Process& process, uint32_t handle);
// Describes the device that the pass is for.
const BackendInfo& InfoOf(Process& process, const Pass& pass);
// Charges memory that the pass holds in the engine until it has run. Returns false if that exceeds
// a limit; `execute` then refuses the pass.
bool Keep(Process& process, Pass& pass, size_t bytes);
void AddInput(Process& process, Pass& pass, std::span<const uint32_t> tokens,
              std::span<const uint32_t> positions);
void AddSampler(Process& process, Pass& pass, std::span<const uint32_t> rows,
                const pie_bridge::Sampler& sampler);
// Gives a pass without input the last row of its context, which its samplers and probes read as row
// 0. Call it before Check.
void ReadLastRow(Process& process, Pass& pass);
// Makes the pass's matchers its rules, if it has any. Call it once the pass is valid.
void MakeRules(Process& process, Pass& pass);
// Checks the drafts of a valid pass, and adds them after its tokens. `step` is the number of the
// chain's token that the last row of the input chooses, and `row` is the row of its draw (DrawKey).
Status AddDrafts(Process& process, Pass& pass, uint32_t step, uint32_t row);
// Checks a pass before it is queued, and fixes the version of its adapter. The scheduler and the
// device trust this check.
Status Check(Process& process, Pass& pass);
// Returns the context of the pass. Fails if the pass has none, or the guest has dropped it.
Result<Context*> ContextOf(Process& process, const Pass& pass);
// Takes `tokens` from a process's budget. Without a budget (null) there is no limit.
Status ChargeTokens(ByteBudget* budget, size_t tokens);
// Queues a valid pass. Returns the handle of its PassOutput.
Result<uint32_t> Execute(Process& process, Pass& pass, Context& context);
// Returns the result of a pass that has run. The guest takes it once.
std::vector<Slot> TakeSlots(Process& process, PassOutput& output);
// Returns the result together with the engine's drafts for the next pass.
InferenceOutput OutputOf(Process& process, PassOutput& output);
// Counts a pass or a chain that waits for the device, until the charge is released: the step thread
// looks at all of them before every batch.
Result<Charge> CountPass(Process& process);
// Returns the error for passes and results that would hold too much memory.
std::unexpected<Error> PassMemoryLimit(Process& process);
// Ends a chain. The context drops the tokens that the guest has not taken.
void EndChain(Process& process, RunningChain& chain);

}  // namespace pie::host
