// The tokens that the rules of a chain force: they are given without being sampled, and fed with
// the next pass.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "sched/chain.h"
#include "sched/token_rules.h"

namespace pie {

// Gives the tokens that must come next, and returns them. The chain has given `given` tokens so
// far, and its next pass feeds `fed` already. One token is left to choose.
Result<std::vector<uint32_t>> GiveForced(Chain& chain, TokenRules& rules, uint32_t given,
                                         uint64_t fed);

}  // namespace pie
