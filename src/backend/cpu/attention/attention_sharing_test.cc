#include "backend/cpu/attention/attention_sharing.h"

#include <gtest/gtest.h>

namespace pie::cpu {
namespace {

using Members = std::vector<uint32_t>;

class SharingTest : public ::testing::Test {
 protected:
  void Add(std::vector<uint32_t> pages, uint32_t keys) {
    tables_.emplace_back();
    for (uint32_t page : pages) tables_.back().push_back({page});
    keys_.push_back(keys);
  }
  std::vector<SharedPrefix> Find(uint32_t page_tokens, uint32_t granule) const {
    std::vector<SharingMember> members;
    for (size_t i = 0; i < tables_.size(); ++i) members.push_back({tables_[i], keys_[i]});
    return FindSharedPrefixes(members, page_tokens, granule);
  }

 private:
  std::vector<std::vector<PageId>> tables_;
  std::vector<uint32_t> keys_;
};

TEST_F(SharingTest, GroupsMembersWithTheSameFirstPages) {
  Add({1, 2, 3, 9}, 60);
  Add({4, 2, 3}, 40);
  Add({1, 2, 3, 8}, 55);
  Add({1, 2, 3}, 47);
  const auto prefixes = Find(16, 8);
  ASSERT_EQ(prefixes.size(), 1);
  EXPECT_EQ(prefixes[0].members, (Members{3, 2, 0}));
  EXPECT_EQ(prefixes[0].keys, 40);  // 47 keys, rounded down to a multiple of 8
}

TEST_F(SharingTest, DoesNotShareLessThanAGranule) {
  Add({1, 2}, 20);
  Add({1, 3}, 20);
  EXPECT_EQ(Find(16, 16).size(), 1);
  EXPECT_TRUE(Find(16, 32).empty());
  EXPECT_TRUE(Find(4, 8).empty());
}

TEST_F(SharingTest, AMemberThatSharesLittleStartsAnotherPrefix) {
  Add({1, 2, 3, 4, 5}, 79);
  Add({1, 2, 3, 4, 6}, 79);
  Add({1, 7}, 30);
  Add({1, 2, 3, 4, 8}, 79);
  const auto prefixes = Find(16, 16);
  ASSERT_EQ(prefixes.size(), 1);
  EXPECT_EQ(prefixes[0].members, (Members{0, 1, 3}));
  EXPECT_EQ(prefixes[0].keys, 64);
}

TEST_F(SharingTest, SharesWithAForkOfAllPages) {
  Add({1, 2}, 31);
  Add({1, 2}, 31);
  const auto prefixes = Find(16, 1);
  ASSERT_EQ(prefixes.size(), 1);
  EXPECT_EQ(prefixes[0].keys, 31);
}

TEST_F(SharingTest, APrefixHasAtLeastTwoMembers) {
  EXPECT_TRUE(Find(16, 16).empty());
  Add({1, 2, 3}, 40);
  EXPECT_TRUE(Find(16, 16).empty());
}

}  // namespace
}  // namespace pie::cpu
