// A world for the scheduler: its real step loop on the dummy device, with a clock that only moves
// when told to, and guests that do random things. One seed, one world: it always runs the same way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "backend/dummy/dummy_backend.h"
#include "base/clock.h"
#include "base/result.h"
#include "sched/queue.h"
#include "sched/step_loop.h"

namespace pie::sim {

struct WorldOptions {
  uint64_t seed = 0;
  uint32_t guests = 8;
  uint32_t actions = 40;  // of a guest
  uint32_t batches_in_flight = 1;
  bool verbose = false;
};

struct WorldReport {
  uint64_t answers = 0;
  uint64_t failures = 0;
  uint64_t steps = 0;
  uint64_t steps_ahead = 0;  // submitted while another batch was in flight
  uint64_t suspensions = 0;
  uint64_t replayed_tokens = 0;
  uint64_t saved = 0;
  uint64_t opened = 0;
  uint64_t opened_adapted = 0;  // of them with tokens of adapters
  uint64_t pages_restored = 0;
  uint64_t ticks_with_a_price = 0;
  int64_t longest_wait_ns = 0;
};

// Runs a world to its end. An error says what went wrong, and when.
Result<WorldReport> RunWorld(const WorldOptions& options);

}  // namespace pie::sim
