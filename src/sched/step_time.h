// StepTime: the time by which the scheduler decides.
//
// The step loop owns it and reads the clock a few times in a round. The other parts of the
// scheduler read it here, so that all decisions of a moment are made at the same time. Owner: the
// step thread.
#pragma once

#include <cstdint>

namespace pie {

struct StepTime {
  int64_t now_ns = 0;
  int64_t last_latency_ns = 0;  // how long the last batch took
  // The price of one more row, as a share of a token. A guess that is right with a lower
  // probability does not pay.
  double row_price = 0.25;
};

}  // namespace pie
