// Limits of the engine's core. A caller that exceeds one gets kExhausted or kInvalid with a text
// that names the limit, so no guest can make a structure grow without bound.
#pragma once

#include <cstdint>

namespace pie::limits {

// Commands in the step thread's queue. A caller that finds the queue full waits.
inline constexpr uint32_t kQueuedCommands = 16'384;
// Operations that may wait on one sequence. Further ones fail.
inline constexpr uint32_t kOperationsPerSequence = 4'096;
// Versions of adapters that the tokens of one sequence were computed with.
inline constexpr uint32_t kAdaptersPerSequence = 64;
// Slots that one pass may ask for: rows × draws, summed over its samplers and probes. It has no
// more samplers and probes than that.
inline constexpr uint64_t kSlotsPerPass = 65'536;
// Floats that one pass may ask for: the logits, distributions and logprobs of all its slots.
inline constexpr uint64_t kValuesPerPass = 1ULL << 25;

// Samplers and probes that may read one row.
inline constexpr uint32_t kReadsPerRow = 64;
// Limit on the read cost of one batch. A pass that costs less than kCheapReading is not counted.
// The unit is the time to read 1,024 numbers, about a microsecond.
inline constexpr uint32_t kReadingPerBatch = 16'384;
inline constexpr uint32_t kCheapReading = 16'384;
// Of passes that are not counted, the first reading of a row costs about as much as its forward
// pass. This is the limit on the cost of all further readings in one batch.
inline constexpr uint32_t kFurtherReadingPerBatch = 65'536;

}  // namespace pie::limits
