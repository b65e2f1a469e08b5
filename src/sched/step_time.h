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
  int64_t last_latency_ns = 0;  // what the last batch took
  // What a row more in a batch costs, as a share of what the batch gives: a guess that is right
  // with a lower probability does not pay.
  double row_price = 0.25;
};

}  // namespace pie
