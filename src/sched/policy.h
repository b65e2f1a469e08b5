// Decides when a batch starts: at once, or after its peers have had time to join it.
//
// Guests come back for their next token a moment after they got the last one, one by one. A batch
// that starts with the first of them makes the others wait for a whole step, and so does the next:
// the device then runs fragments. A pure function of what is known at that moment.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pie {

enum class BatchPolicy : uint8_t {
  kGreedy,    // starts at once
  kEager,     // waits for every peer of the last batch that may still come back
  kAdaptive,  // waits for the peers that have been coming back quickly
};

std::optional<BatchPolicy> ParseBatchPolicy(std::string_view name);

// A batch that could start now.
struct Gathering {
  uint32_t waiting = 0;  // members of the batch
  uint32_t most = 0;     // members that the device takes
  uint32_t woken = 0;    // peers that got an answer and have not asked again
  uint32_t prompt = 0;   // peers among them that came back quickly the last time
  int64_t waited_ns = 0;
  int64_t last_latency_ns = 0;  // of the last batch
};

// The longest that a batch waits for its peers: as long as the last batch took, but no longer than
// a guest's wake-up ever takes.
int64_t PatienceNs(int64_t last_latency_ns);

// How many peers the policy would wait for.
uint32_t PeersToWaitFor(BatchPolicy policy, const Gathering& gathering);

// How long to wait for these peers from now on. 0: start the batch.
int64_t HoldNs(BatchPolicy policy, const Gathering& gathering);

}  // namespace pie
