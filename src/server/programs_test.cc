#include "server/programs.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pie::server {
namespace {

using std::chrono::minutes;

TEST(Programs, ThoseThatWereNotUsedForLongestLeaveWhenTheirCodeTakesTooMuch) {
  const Programs::Time now = std::chrono::steady_clock::now();
  const size_t half = size_t{1} << 30;
  Programs::Codes loaded = {{"a@1.0.0", {"1", half, now - minutes(2)}},
                            {"b@1.0.0", {"2", half, now - minutes(4)}}};
  EXPECT_TRUE(Programs::TakeUnused(loaded, 2 * half, now).empty()) << "both have room";
  loaded["c@1.0.0"] = {"3", half, now};
  EXPECT_EQ(Programs::TakeUnused(loaded, 2 * half, now), std::vector<std::string>{"b@1.0.0"});
  EXPECT_EQ(loaded.size(), 2u);
  loaded["d@1.0.0"] = {"4", 2 * half, now};
  EXPECT_EQ(Programs::TakeUnused(loaded, 2 * half, now), std::vector<std::string>{"a@1.0.0"});
  EXPECT_EQ(loaded.size(), 2u) << "both were used just now";
}

}  // namespace
}  // namespace pie::server
