// Read costs: how much work the samplers and probes of a pass are, row by row.
//
// Reading a row goes over the vocabulary once or several times, so a pass that asks for much at
// every row can take longer to read than to compute. The planner cuts such a pass into chunks, so
// that it holds up no batch for long. Attention masks of many runs are as expensive, so they count
// as well.
#pragma once

#include <cstdint>
#include <vector>

#include "sched/scheduler.h"

namespace pie {

// The unit of costs is the time in which a CPU reads this many numbers, about a microsecond.
inline constexpr uint32_t kReadUnit = 1'024;

// The cost of each row, in units; empty if the pass as a whole is cheap to read, as nearly all are.
std::vector<uint32_t> ReadCosts(const Forward& forward, uint32_t vocab_size);

// What the attention masks of each row cost, however cheap they are.
std::vector<uint32_t> MaskCosts(const Forward& forward);

// The cost of a cheap pass without the most expensive sampler or probe of each row: what the pass
// reads beyond one token for each row.
uint32_t FurtherReading(const Forward& forward, uint32_t vocab_size);

}  // namespace pie
