// What executing a pass, a step and a chain have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "host/api.h"

namespace pie::host {

// Checks the number of tokens that a guest gives to be decoded.
Status CheckTokens(Process& process, std::span<const uint32_t> tokens);
// The pass, if it may still be changed.
Result<Pass*> OpenPass(Process& process, uint32_t handle);
// Of the device that it is for.
const BackendInfo& InfoOf(Process& process, const Pass& pass);
// Counts what the pass keeps in the engine until it has run. False past the limit: then `execute`
// refuses the pass.
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
// Checks the drafts of a valid pass, and adds them behind its tokens; `step` is the number of the
// chain's token that the last row of the input chooses, and `row` what it draws by.
Status AddDrafts(Process& process, Pass& pass, uint32_t step, uint32_t row);
// Checks a pass before it is queued, and fixes the version of its adapter; the scheduler and the
// device trust the answer.
Status Check(Process& process, Pass& pass);
// The context that the pass was given, if the guest still has it.
Result<Context*> ContextOf(Process& process, const Pass& pass);
// Takes tokens to be computed from a process's budget; null: it has none.
Status ChargeTokens(ByteBudget* budget, size_t tokens);
// Queues a valid pass; the handle of its PassOutput.
Result<uint32_t> Execute(Process& process, Pass& pass, Context& context);
// The result of a pass that has run. The guest takes it once.
std::vector<Slot> TakeSlots(Process& process, PassOutput& output);
// The same with the engine's drafts.
InferenceOutput OutputOf(Process& process, PassOutput& output);
// What is said when passes and results hold too much.
std::unexpected<Error> PassMemoryLimit(Process& process);
// Ends a chain. The context forgets the tokens that were not taken.
void EndChain(Process& process, RunningChain& chain);

}  // namespace pie::host
