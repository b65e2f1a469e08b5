// Every limit of the engine's core in one place. Beyond a limit the caller gets kExhausted or
// kInvalid with a text that names it; nothing grows without an end because a guest wants it to.
#pragma once

#include <cstdint>

namespace pie::limits {

// Commands between two drains of the step thread. A caller that finds the queue full waits.
inline constexpr uint32_t kQueuedCommands = 16'384;
// Operations that may wait on one sequence; what comes after them fails.
inline constexpr uint32_t kOperationsPerSequence = 4'096;
// Slots that one pass may ask for (rows × draws, summed over its samplers and probes).
inline constexpr uint64_t kSlotsPerPass = 65'536;
// Numbers that one pass may ask for (logits, distributions and logprobs of all its slots).
inline constexpr uint64_t kValuesPerPass = 1ULL << 25;

}  // namespace pie::limits
