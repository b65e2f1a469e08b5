#include "sched/planner.h"

#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <string>

namespace pie {

void PrintTo(const Planned& planned, std::ostream* out) {
  *out << "#" << planned.request << ":" << planned.tokens;
}

namespace {

struct Scenario {
  std::string name;
  std::vector<PlanRequest> waiting;  // {tokens left, pages needed}, oldest first
  PlanBudget budget;
  std::vector<Planned> expected;  // {request, tokens}
};

const std::vector<Scenario> kScenarios = {
    {"nothing waits", {}, {.tokens = 8, .members = 8, .pages_free = 8}, {}},
    {"all decodes go",
     {{1, 0}, {1, 1}, {1, 0}},
     {.tokens = 8, .members = 8, .pages_free = 8},
     {{0, 1}, {1, 1}, {2, 1}}},
    {"members are counted",
     {{1, 0}, {1, 0}, {1, 0}},
     {.tokens = 8, .members = 2, .pages_free = 8},
     {{0, 1}, {1, 1}}},
    {"tokens are counted",
     {{1, 0}, {1, 0}, {1, 0}},
     {.tokens = 2, .members = 8, .pages_free = 8},
     {{0, 1}, {1, 1}}},
    {"a full batch takes no pass", {{1, 0}}, {.tokens = 0, .members = 8, .pages_free = 8}, {}},
    {"a prefill that fits goes whole",
     {{100, 7}},
     {.tokens = 128, .members = 8, .pages_free = 8},
     {{0, 100}}},
    {"a longer one is cut",
     {{1000, 8}},
     {.tokens = 128, .members = 8, .pages_free = 8},
     {{0, 128}}},
    {"later chunks of a prefill need no pages",
     {{872, 0}},
     {.tokens = 128, .members = 8, .pages_free = 0},
     {{0, 128}}},
    {"decodes behind a prefill keep their room",
     {{1000, 8}, {1, 0}, {1, 0}},
     {.tokens = 128, .members = 8, .pages_free = 8},
     {{0, 126}, {1, 1}, {2, 1}}},
    {"long passes share what they may take beside other users' decodes",
     {{40, 8}, {1000, 8}, {1, 0}},
     {.tokens = 128, .members = 8, .pages_free = 16, .long_tokens = 64},
     {{0, 40}, {1, 24}, {2, 1}}},
    {"drafts are decodes too",
     {{1000, 8}, {6, 0}, {5, 0}},
     {.tokens = 128, .members = 8, .pages_free = 8},
     {{0, 117}, {1, 6}, {2, 5}}},
    {"decodes that run and will come back keep their room too",
     {{1000, 8}},
     {.tokens = 128, .members = 8, .pages_free = 8, .expected_tokens = 28},
     {{0, 100}}},
    {"however many decodes there are, a prefill gets a share",
     {{100, 1}, {1, 0}, {1, 0}, {1, 0}, {1, 0}},
     {.tokens = 4, .members = 8, .pages_free = 8},
     {{0, 1}, {1, 1}, {2, 1}, {3, 1}}},
    {"only the first prefill gets a share",
     {{100, 1}, {100, 1}, {1, 0}, {1, 0}, {1, 0}},
     {.tokens = 4, .members = 8, .pages_free = 8},
     {{0, 1}, {2, 1}, {3, 1}, {4, 1}}},
    {"prefills share what is left, oldest first",
     {{100, 1}, {100, 1}, {100, 1}},
     {.tokens = 128, .members = 8, .pages_free = 8},
     {{0, 100}, {1, 28}}},
    {"a decode without a page waits, others go on",
     {{1, 1}, {1, 0}},
     {.tokens = 8, .members = 8, .pages_free = 0},
     {{1, 1}}},
    {"pages are counted over the batch",
     {{1, 1}, {1, 1}, {1, 1}},
     {.tokens = 8, .members = 8, .pages_free = 2},
     {{0, 1}, {1, 1}}},
    {"a prefill leaves the decodes their pages",
     {{64, 4}, {1, 1}},
     {.tokens = 128, .members = 8, .pages_free = 4},
     {{1, 1}}},
    {"no prefill overtakes one that waits for pages",
     {{64, 4}, {16, 1}, {1, 0}},
     {.tokens = 128, .members = 8, .pages_free = 2},
     {{2, 1}}},
    {"unless it has its pages already",
     {{64, 4}, {16, 0}},
     {.tokens = 128, .members = 8, .pages_free = 2},
     {{1, 16}}},
    {"unless nothing runs, so that waiting does not help",
     {{64, 4}, {16, 1}, {16, 1}},
     {.tokens = 128, .members = 8, .pages_free = 1, .device_idle = true},
     {{1, 16}}},
    {"an idle device still plans in order when it can",
     {{64, 4}, {16, 1}, {1, 0}},
     {.tokens = 128, .members = 8, .pages_free = 2, .device_idle = true},
     {{2, 1}}},
    {"an idle device does not keep pages for decodes that cannot use them",
     {{64, 4}, {8, 8}},
     {.tokens = 128, .members = 8, .pages_free = 5, .device_idle = true},
     {{0, 64}}},
    {"nothing fits",
     {{64, 4}, {1, 1}},
     {.tokens = 128, .members = 8, .pages_free = 0, .device_idle = true},
     {}},
    {"a page that several begin with is made once",
     {{100, 7, 5, true}, {200, 13, 5, true}, {1, 0}, {100, 7, 6, true}},
     {.tokens = 512, .members = 8, .pages_free = 64},
     {{0, 100}, {2, 1}, {3, 100}}},
    {"a pass that cannot use another's page makes its own",
     {{100, 7, 5, true}, {100, 7, 5, false}, {100, 7, 0, false}},
     {.tokens = 512, .members = 8, .pages_free = 64},
     {{0, 100}, {1, 100}, {2, 100}}},
    {"a page of one that does not start is made by the next",
     {{100, 9, 5, true}, {64, 4, 5, true}},
     {.tokens = 512, .members = 8, .pages_free = 4, .device_idle = true},
     {{1, 64}}},
    {"a pass that waits for a page keeps no free page from others",
     {{64, 4, 5, true}, {100, 20, 5, true}, {64, 4}},
     {.tokens = 512, .members = 8, .pages_free = 8},
     {{0, 64}, {2, 64}}},
    {"on an idle device, a page that several begin with is made once too",
     {{64, 9, 4, true}, {64, 4, 5, true}, {64, 4, 5, true}},
     {.tokens = 512, .members = 8, .pages_free = 8, .device_idle = true},
     {{1, 64}}},
    {"a batch smaller than a draft cuts it",
     {{5, 0}},
     {.tokens = 2, .members = 8, .pages_free = 0},
     {{0, 2}}},
};

TEST(Planner, Scenarios) {
  for (const Scenario& scenario : kScenarios) {
    std::vector<Planned> planned = {{9, 9}};  // replaced
    Plan(scenario.waiting, scenario.budget, planned);
    EXPECT_EQ(planned, scenario.expected) << scenario.name;
  }
}

// For any waiting passes: no budget is exceeded, no pass is chosen twice, the order is kept, and
// with an idle device some pass runs if one can.
TEST(Planner, NeverPassesItsBudget) {
  std::mt19937 random(5);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<PlanRequest> waiting(random() % 12);
    for (PlanRequest& request : waiting) {
      request.tokens_left = 1 + (random() % 3 == 0 ? random() % 300 : random() % 3);
      request.pages_needed = random() % 4 == 0 ? 0 : request.tokens_left / 4 + 1;
    }
    const PlanBudget budget = {.tokens = static_cast<uint32_t>(random() % 64),
                               .members = static_cast<uint32_t>(random() % 6),
                               .pages_free = static_cast<uint32_t>(random() % 30),
                               .expected_tokens = static_cast<uint32_t>(random() % 8),
                               .device_idle = random() % 2 == 0};
    std::vector<Planned> planned;
    Plan(waiting, budget, planned);
    uint64_t tokens = 0;
    uint64_t pages = 0;
    for (size_t i = 0; i < planned.size(); ++i) {
      if (i > 0) {
        EXPECT_LT(planned[i - 1].request, planned[i].request);
      }
      ASSERT_LT(planned[i].request, waiting.size());
      EXPECT_GE(planned[i].tokens, 1U);
      EXPECT_LE(planned[i].tokens, waiting[planned[i].request].tokens_left);
      tokens += planned[i].tokens;
      pages += waiting[planned[i].request].pages_needed;
    }
    EXPECT_LE(tokens, budget.tokens);
    EXPECT_LE(pages, budget.pages_free);
    EXPECT_LE(planned.size(), budget.members);
    if (planned.empty() && budget.device_idle && budget.tokens > 0 && budget.members > 0) {
      for (const PlanRequest& request : waiting) {
        EXPECT_GT(request.pages_needed, budget.pages_free);
      }
    }
  }
}

TEST(Planner, PassesThatAreExpensiveToReadAreCut) {
  const std::vector<uint32_t> costs(100, 10);
  const PlanRequest expensive{.tokens_left = 100, .read_costs = costs};
  const PlanBudget budget{.tokens = 512, .members = 8, .pages_free = 8, .reading = 250};
  std::vector<Planned> planned;
  // The cheap ones are not cut, and not counted. The second expensive one finds nothing left.
  Plan({{{.tokens_left = 50}, expensive, {.tokens_left = 1}, expensive}}, budget, planned);
  EXPECT_EQ(planned, (std::vector<Planned>{{0, 50}, {1, 25}, {2, 1}}));
}

TEST(Planner, ARowThatIsTooExpensiveRunsAlone) {
  const std::vector<uint32_t> costs = {0, 900, 900};
  const PlanBudget budget{.tokens = 512, .members = 8, .pages_free = 8, .reading = 250};
  std::vector<Planned> planned;
  Plan({{{.tokens_left = 3, .read_costs = costs}}}, budget, planned);
  EXPECT_EQ(planned, (std::vector<Planned>{{0, 1}}));
  Plan({{{.tokens_left = 2, .read_costs = std::span(costs).subspan(1)}}}, budget, planned);
  EXPECT_EQ(planned, (std::vector<Planned>{{0, 1}}));
}

TEST(Planner, FurtherReadingHasALimit) {
  const PlanRequest probed{.tokens_left = 1, .further_reading = 400};
  const PlanBudget budget{.tokens = 512, .members = 8, .pages_free = 8, .further_reading = 1'000};
  std::vector<Planned> planned;
  Plan({{probed, probed, probed, {.tokens_left = 1}}}, budget, planned);
  EXPECT_EQ(planned, (std::vector<Planned>{{0, 1}, {1, 1}, {3, 1}}));
  // The first may exceed the limit, or it would never run.
  Plan({{{.tokens_left = 1, .further_reading = 5'000}, probed}}, budget, planned);
  EXPECT_EQ(planned, (std::vector<Planned>{{0, 1}}));
}

TEST(Planner, ExpensivePassesWaitWhileOthersRun) {
  const std::vector<uint32_t> costs(100, 10);
  const PlanRequest expensive{.tokens_left = 100, .read_costs = costs};
  const PlanBudget budget{
      .tokens = 512, .members = 8, .pages_free = 8, .reading = 0, .device_idle = true};
  std::vector<Planned> planned;
  Plan({{expensive, {.tokens_left = 1}}}, budget, planned);
  EXPECT_EQ(planned, (std::vector<Planned>{{1, 1}}));
  Plan({{expensive}}, budget, planned);
  EXPECT_EQ(planned, (std::vector<Planned>{{0, 100}})) << "nothing else could run";
}

}  // namespace
}  // namespace pie
