// Attacks that repeat a small operation as often as they can: messages, timers, launches, forks,
// chains.
#include "availability.h"

namespace pie::host {
namespace {

// The attackers run until the end of the test.
class Storms : public Availability,
               public testing::WithParamInterface<std::pair<const char*, int>> {};

TEST_P(Storms, HoldUpNobody) {
  const auto [mode, n] = GetParam();
  // A batch takes longer on this device than the engine's work for it, as on a real device.
  StartEngine({}, {.max_batch_members = 64, .latency_us = 200});
  Beside([&] {
    for (int i = 0; i < 6; ++i) Attack(mode, n);
  });
  for (const auto& attacker : attackers_) {
    EXPECT_FALSE(attacker->exit()) << attacker->exit()->text;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Availability, Storms,
    testing::Values(std::pair{"broadcast_storm", 2'500}, std::pair{"ping_pong", 8},
                    std::pair{"timer_storm", 20'000}, std::pair{"trap_storm", 1 << 20},
                    std::pair{"churn_memory", 200 << 20}, std::pair{"fork_chain", 300},
                    std::pair{"suspend_storm", 3'000}, std::pair{"hold_chains", 500},
                    std::pair{"wait_alike", 500}, std::pair{"send_files", 16 << 20},
                    std::pair{"bid_storm", 500}, std::pair{"children_with_their_parent", 2'000},
                    std::pair{"partial_call", 500'000}, std::pair{"large_tools", 4 << 20},
                    std::pair{"adapter_churn", 50}, std::pair{"topics_again", 5'000},
                    std::pair{"one_token_turns", 4'096}, std::pair{"distributions", 2'000},
                    std::pair{"return_many", 16 << 20}, std::pair{"slow_masks", 200},
                    std::pair{"held_spaces", 4'000'000}),
    [](const auto& one) { return std::string(one.param.first); });

}  // namespace
}  // namespace pie::host
