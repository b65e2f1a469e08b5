// Chooses the drafter of a chain whose guest lets the scheduler guess.
#pragma once

#include <cstdint>
#include <functional>

namespace pie {

struct Lane;
struct StepTime;

// Makes the drafter of the lane's chain, whose first pass has just run. A draft model calls `ready`
// from the step thread of its own scheduler when its guesses are known.
void MakeDrafter(const Lane& lane, uint32_t vocab_size, const StepTime& time,
                 std::function<void()> ready);

}  // namespace pie
