// What executing a pass and running a chain have in common.
#pragma once

#include "host/answer.h"

namespace pie::host {

// The pass, if it may still be changed.
Result<Pass*> OpenPass(Process& process, uint32_t handle);
// Everything that a pass asks for, checked before it is queued.
Status Validate(const Pass& pass, const BackendInfo& info);
// The context that it was given, if that is still there.
Result<Context*> ContextOf(Process& process, const Pass& pass);
// Takes tokens to be computed from a process's budget; null: it has none.
Status ChargeTokens(ByteBudget* budget, size_t tokens);
// What is said when passes and results hold too much.
std::unexpected<Error> PassMemoryLimit(Process& process);
// Its guest has had enough of a chain: the context forgets what was not taken.
void EndChain(Process& process, RunningChain& chain);

}  // namespace pie::host
