// Shared by the cases about constraints and speculation.
#pragma once

#include "cases.h"

using Tokens = std::vector<uint32_t>;

Result<inferlet::GrammarConstraint> ConstraintOf(const Json& input);
Result<inferlet::Context> AskedContext(const Json& input);
// Greedy, or drawn from the seed by the sampler, without one all allowed tokens alike; up to a stop
// token or the limit.
Result<inferlet::Generator> Drawn(inferlet::Context& context, const Json& input);
// Where a generation has left its context.
Json GenerationState(const inferlet::Context& context, const inferlet::Generator& generator);
