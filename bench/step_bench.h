// What a step of the scheduler costs, apart from the device.
#pragma once

namespace pie {

// Microseconds a step, the median, with `members` sequences that each feed a token: all that the
// step thread does but for the time in the device.
double StepOverheadUs(int members);

}  // namespace pie
