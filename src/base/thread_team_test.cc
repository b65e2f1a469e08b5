#include "base/thread_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <vector>

namespace pie {
namespace {

TEST(ThreadTeamTest, DoesEveryPartOnceAndTheCallerSeesTheResults) {
  for (const size_t threads : {1U, 2U, 7U}) {
    ThreadTeam team("test", threads);
    EXPECT_EQ(team.threads(), threads);
    for (size_t parts = 0; parts < 200; ++parts) {
      std::vector<int> done(parts);  // not atomic: Run makes the writes visible
      team.Run(parts, [&](size_t i) { ++done[i]; });
      EXPECT_EQ(done, std::vector<int>(parts, 1));
    }
  }
}

TEST(ThreadTeamTest, PartsRunAtTheSameTime) {
  ThreadTeam team("test", 3);
  std::atomic<int> here = 0;
  team.Run(3, [&](size_t) {  // each part waits for the others
    ++here;
    while (here < 3) std::this_thread::yield();
  });
  EXPECT_EQ(here, 3);
}

TEST(ThreadTeamTest, HasNoMoreThreadsThanProcessors) {
  EXPECT_EQ(ThreadTeam::Size(1), 1U);
  EXPECT_EQ(ThreadTeam::Size(0), 1U);
  EXPECT_GE(ThreadTeam::Size(1000), 1U);
}

}  // namespace
}  // namespace pie
