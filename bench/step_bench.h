// Measures what a step of the scheduler costs, without the device.
#pragma once

namespace pie {

// Median of a step's microseconds with `members` sequences that each feed one token. The time in
// the device is subtracted.
double StepOverheadUs(int members);

}  // namespace pie
