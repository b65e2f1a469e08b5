#include "server/client_turns.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

namespace pie::server {
namespace {

class ClientTurnsTest : public testing::Test {
 protected:
  void Enter(const std::string& user, const std::string& what) {
    turns_.Enter(user, [this, what] { done_ += what; });
  }
  void Run(size_t most = 1'000) {
    for (; most > 0 && !posted_.empty(); --most) {
      const auto next = std::move(posted_.front());
      posted_.pop_front();
      next();
    }
  }

  std::deque<std::function<void()>> posted_;
  std::string done_;
  ClientTurns turns_{[this](std::function<void()> run) { posted_.push_back(std::move(run)); }};
};

TEST_F(ClientTurnsTest, AUserWhoSendsMuchWaitsForTheirTurn) {
  for (int i = 0; i < 5; ++i) Enter("mallory", "m");
  Enter("ada", "a");
  Enter("ben", "b");
  Enter("ada", "A");
  Run();
  EXPECT_EQ(done_, "mabmAmmm");
}

TEST_F(ClientTurnsTest, NothingRunsBeforeOtherHandlersHadTheirChance) {
  for (int i = 0; i < 3; ++i) Enter("mallory", "m");
  EXPECT_EQ(done_, "");
  EXPECT_EQ(posted_.size(), 1U) << "one piece of work is posted at a time";
  Run(1);
  EXPECT_EQ(done_, "m");
  EXPECT_EQ(posted_.size(), 1U);
}

TEST_F(ClientTurnsTest, WorkMayEnterMoreWork) {
  turns_.Enter("mallory", [this] {
    Enter("mallory", "2");
    done_ += "1";
  });
  Enter("ada", "a");
  Run();
  EXPECT_EQ(done_, "1a2");
}

TEST_F(ClientTurnsTest, WorkThatThrowsHoldsUpNobody) {
  turns_.Enter("mallory", [] { throw std::runtime_error("no memory"); });
  Enter("mallory", "m");
  Enter("ada", "a");
  EXPECT_THROW(Run(1), std::runtime_error);
  Run();
  EXPECT_EQ(done_, "am");
}

TEST_F(ClientTurnsTest, WhatIsDiscardedNeverRuns) {
  Enter("mallory", "m");
  turns_.Clear();
  Run();
  Enter("ada", "a");
  Run();
  EXPECT_EQ(done_, "a");
}

}  // namespace
}  // namespace pie::server
