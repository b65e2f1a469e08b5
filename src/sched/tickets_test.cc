#include "sched/tickets.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>

namespace pie {
namespace {

using namespace std::chrono_literals;

bool Signalled(Tickets& tickets, Fence& fence) {
  tickets.SignalFences();
  return fence.WaitFor(0ms);
}

TEST(Tickets, AFenceWaitsForWhatWasBegunBeforeIt) {
  Tickets tickets;
  const uint64_t first = tickets.Take();
  const uint64_t second = tickets.Take();
  EXPECT_LT(first, second);
  const auto fence = std::make_shared<Fence>();
  tickets.Await(fence);
  const uint64_t later = tickets.Take();
  tickets.GiveBack(second);
  tickets.GiveBack(later);
  EXPECT_FALSE(Signalled(tickets, *fence));
  tickets.GiveBack(first);
  EXPECT_TRUE(Signalled(tickets, *fence));
}

TEST(Tickets, AFenceBehindNothingWaitsForNothing) {
  Tickets tickets;
  tickets.GiveBack(tickets.Take());
  const auto fence = std::make_shared<Fence>();
  tickets.Await(fence);
  EXPECT_TRUE(Signalled(tickets, *fence));
}

TEST(Tickets, APlaceIsNoOperation) {
  Tickets tickets;
  const uint64_t ticket = tickets.Take();
  EXPECT_LT(ticket, tickets.TakePlace());
  const auto fence = std::make_shared<Fence>();
  tickets.Await(fence);
  tickets.GiveBack(ticket);
  EXPECT_TRUE(Signalled(tickets, *fence)) << "the place was waited for";
}

}  // namespace
}  // namespace pie
