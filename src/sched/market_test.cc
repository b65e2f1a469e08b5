#include "sched/market.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace pie {
namespace {

constexpr AccountId kAnna{1};
constexpr AccountId kBert{2};
constexpr AccountId kCleo{3};
constexpr uint64_t kPage = 1'000'000;  // parts

TEST(Market, PriceIsTheHighestBidThatIsLeftOut) {
  struct Case {
    const char* name;
    std::vector<Demand> demands;
    uint64_t capacity;
    Credits price;
  };
  const Case cases[] = {
      {"nobody", {}, 10, 0},
      {"room for all", {{5, 4}, {3, 6}}, 10, 0},
      {"one is left out", {{5, 4}, {3, 7}}, 10, 3},
      {"the best that is left out", {{1, 4}, {9, 4}, {3, 4}, {5, 4}}, 8, 3},
      {"the best wants too much", {{9, 11}, {3, 2}}, 10, 9},
      {"no memory", {{2, 1}}, 0, 2},
      {"nothing is bid", {{0, 8}, {0, 8}}, 10, 0},
  };
  for (const Case& c : cases) EXPECT_EQ(ClearingPrice(c.demands, c.capacity), c.price) << c.name;
}

TEST(Market, DefaultBidFollowsTheFormula) {
  // (B/μ + d) / (p + μ(1 + cv²)/(2s)) with B = 64, d = 1, p = 3, s = 16
  const BidTerms terms = {.balance = 64 * kCredit,
                          .dividend = kCredit,
                          .pages = 3,
                          .page_tokens = 16,
                          .steps = 32,
                          .variation = 1};
  EXPECT_EQ(DefaultBid(terms), CreditsOf((64.0 / 32 + 1) / (3 + 32 * 2 / 32.0)));
  BidTerms certain = terms;
  certain.variation = 0;
  EXPECT_EQ(DefaultBid(certain), CreditsOf((64.0 / 32 + 1) / (3 + 32 / 32.0)));
  EXPECT_GT(DefaultBid(certain), DefaultBid(terms));
  EXPECT_EQ(DefaultBid({.pages = 3}), 0) << "nothing to spend";
  EXPECT_GT(DefaultBid({.balance = kCredit, .steps = 0}), 0) << "the last step";
}

TEST(Market, ExpectedStepsAreCountedDown) {
  const BidTerms terms = {.balance = 64 * kCredit, .pages = 3, .page_tokens = 16};
  const auto bid = [&](const BidPlan& plan, const BidProgress& progress) {
    return BidOf(plan, progress, terms);
  };
  const auto by_formula = [&](double steps, double variation) {
    BidTerms all = terms;
    all.steps = steps;
    all.variation = variation;
    return DefaultBid(all);
  };
  const BidPlan horizon{.expected = {{.steps = 100, .variation = 0}}};
  EXPECT_EQ(bid(horizon, {}), by_formula(100, 0));
  EXPECT_EQ(bid(horizon, {.steps = 50, .steps_at_expectation = 10}), by_formula(60, 0));
  EXPECT_EQ(bid(horizon, {.steps = 500}), by_formula(1, 0)) << "longer than expected";
  EXPECT_EQ(bid(horizon, {.chain_steps = 7}), by_formula(100, 0)) << "a statement counts more";
  EXPECT_EQ(bid({}, {.chain_steps = 7}), by_formula(7, 1));
  EXPECT_EQ(bid({}, {.steps = 10}), by_formula(64, 1));
  EXPECT_EQ(bid({}, {.steps = 200}), by_formula(200, 1));
}

TEST(Market, AStatedBidReplacesTheDefault) {
  const BidTerms terms = {.balance = 64 * kCredit, .pages = 3, .page_tokens = 16};
  const BidPlan fixed{.fixed = 2.5, .expected = {{.steps = 10, .variation = 1}}};
  EXPECT_EQ(BidOf(fixed, {}, terms), CreditsOf(2.5));
  EXPECT_EQ(BidOf(fixed, {.pass_bid = 7}, terms), CreditsOf(7)) << "the pass's own bid";
  EXPECT_EQ(BidOf({}, {.pass_bid = 7}, terms), CreditsOf(7));
  EXPECT_EQ(BidOf({.idle = true, .fixed = 2.5}, {.pass_bid = 7}, terms), 0);
}

TEST(Market, BidsAreTakenAsTheyCome) {
  EXPECT_EQ(CreditsOf(2.5), 2'500'000);
  EXPECT_EQ(CreditsOf(0), 0);
  EXPECT_EQ(CreditsOf(-1), 0);
  EXPECT_EQ(CreditsOf(std::nan("")), 0);
  EXPECT_EQ(CreditsOf(std::numeric_limits<double>::infinity()), CreditsOf(1e9));
}

TEST(Market, WhoGoesAndWhoComesBack) {
  const Standing idle = {.idle = true, .bid = 100, .age = 1};
  const Standing broke = {.defaulted = true, .bid = 100, .age = 2};
  const Standing low = {.bid = 1, .age = 3};
  const Standing old = {.bid = 5, .age = 4};
  const Standing young = {.bid = 5, .age = 5};
  const Standing in_order[] = {idle, broke, low, young, old};
  for (size_t i = 0; i < 5; ++i) {
    for (size_t j = 0; j < 5; ++j) {
      EXPECT_EQ(EvictedBefore(in_order[i], in_order[j]), i < j) << i << " " << j;
    }
  }
  const Standing over = {.over_share = true, .overdue = true, .bid = 100, .age = 6};
  EXPECT_TRUE(EvictedBefore(idle, over));
  EXPECT_TRUE(EvictedBefore(over, broke));
  EXPECT_FALSE(EvictedBefore(old, over));
  EXPECT_TRUE(RestoredBefore(low, over));
  EXPECT_FALSE(RestoredBefore(over, low));
  EXPECT_TRUE(RestoredBefore(old, low));
  EXPECT_TRUE(RestoredBefore(old, young));
  EXPECT_FALSE(RestoredBefore(young, old));
  EXPECT_FALSE(RestoredBefore(old, old));
}

TEST(Market, UsersHaveEqualSharesHoweverManyAccountsTheyHave) {
  Market market;
  const auto of_user = [](uint64_t user) {
    auto view = std::make_shared<AccountView>();
    view->user = user;
    return view;
  };
  market.Open(kAnna, 10, of_user(1));
  market.Open(kBert, 10, of_user(1));
  market.Open(kCleo, 10, of_user(2));
  const Market::Holding alone[] = {{kAnna, 40 * kPage}, {kBert, 30 * kPage}};
  market.Tick(0, alone);
  EXPECT_FALSE(market.has_shares());
  EXPECT_FALSE(market.over_share(kAnna));
  EXPECT_FALSE(market.WithinShare(kCleo, 1));

  const Market::Holding one_waits[] = {{kAnna, 40 * kPage}, {kBert, 30 * kPage}, {kCleo, 0}};
  market.Tick(0, one_waits);
  EXPECT_TRUE(market.any_over_share());
  EXPECT_TRUE(market.over_share(kAnna));
  EXPECT_TRUE(market.over_share(kBert));
  EXPECT_FALSE(market.over_share(kCleo));
  EXPECT_TRUE(market.WithinShare(kCleo, 35));
  EXPECT_FALSE(market.WithinShare(kCleo, 36));
  EXPECT_FALSE(market.WithinShare(kAnna, 0));
  market.Grant(kCleo, 30);
  EXPECT_TRUE(market.WithinShare(kCleo, 5));
  EXPECT_FALSE(market.WithinShare(kCleo, 6));

  const Market::Holding nearly_even[] = {{kAnna, 40 * kPage}, {kCleo, 30 * kPage}};
  market.Tick(0, nearly_even);
  EXPECT_TRUE(market.has_shares());
  EXPECT_FALSE(market.any_over_share());
  EXPECT_FALSE(market.over_share(kAnna));
  market.Tick(0, {});
  EXPECT_FALSE(market.has_shares());
}

TEST(Market, RentComesBackAsDividendsByEndowment) {
  Market market;
  market.Open(kAnna, 10, nullptr);
  market.Open(kBert, 30, nullptr);
  // A page each of their own, and one that they share.
  const Market::Holding held[] = {{kAnna, kPage + kPage / 2}, {kBert, kPage + kPage / 2}};
  market.Tick(2 * kCredit, held);
  EXPECT_EQ(market.price(), 2 * kCredit);
  // Each paid 3, of 6 a quarter goes to Anna.
  EXPECT_EQ(market.dividend(kAnna), kCredit * 3 / 2);
  EXPECT_EQ(market.balance(kAnna), 10 * kCredit - 3 * kCredit + kCredit * 3 / 2);
  EXPECT_EQ(market.balance(kBert), 30 * kCredit - 3 * kCredit + kCredit * 9 / 2);
  EXPECT_EQ(market.Total(), 40 * kCredit);
  market.Tick(0, held);
  EXPECT_EQ(market.dividend(kAnna), 0);
}

TEST(Market, PagesCostACreditEach) {
  Market market;
  const auto view = std::make_shared<AccountView>();
  market.Open(kAnna, 4, view);
  EXPECT_EQ(view->balance, 4 * kCredit);
  market.ChargePages(kAnna, 3);
  EXPECT_EQ(market.balance(kAnna), kCredit);
  EXPECT_EQ(view->balance, kCredit);
  market.ChargePages(kAnna, 3);
  EXPECT_EQ(market.balance(kAnna), 0) << "never below";
  EXPECT_FALSE(market.defaulted(kAnna)) << "decided by the tick";
  market.Tick(0, {});
  EXPECT_TRUE(market.defaulted(kAnna));
  EXPECT_EQ(market.spent(), 4 * kCredit);
  market.Tick(0, {});
  EXPECT_FALSE(market.defaulted(kAnna));
}

TEST(Market, WhoCannotPayHasDefaulted) {
  Market market;
  market.Open(kAnna, 1, nullptr);
  market.Open(kBert, 9, nullptr);
  const Market::Holding held[] = {{kAnna, 5 * kPage}, {kBert, kPage}};
  market.Tick(kCredit, held);
  EXPECT_TRUE(market.defaulted(kAnna));
  EXPECT_FALSE(market.defaulted(kBert));
  EXPECT_TRUE(market.Holds());
  const Market::Holding strangers[] = {{AccountId{0}, kPage}, {AccountId{99}, kPage}};
  market.Tick(INT64_MAX / 2, strangers);
  EXPECT_EQ(market.Total(), 10 * kCredit);
}

// No millionth of a credit is ever lost or made up.
TEST(Market, TheLawHoldsExactly) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    Market market;
    uint64_t next = 1;
    std::vector<AccountId> open;
    for (int step = 0; step < 300; ++step) {
      const Credits before = market.Total();
      switch (below(8)) {
        case 0:
          open.push_back({next++});
          market.Open(open.back(), static_cast<uint32_t>(below(100)), nullptr);
          break;
        case 1:
          if (!open.empty()) {
            const size_t gone = below(open.size());
            market.Close(open[gone]);
            open.erase(open.begin() + static_cast<std::ptrdiff_t>(gone));
          }
          break;
        case 2:
        case 3:
          if (!open.empty()) market.ChargePages(open[below(open.size())], below(9));
          break;
        default: {
          std::vector<Market::Holding> held;
          for (AccountId id : open) {
            for (uint64_t n = below(3); n > 0; --n) held.push_back({id, below(50'000'000)});
          }
          market.Tick(below(4) == 0 ? 0 : static_cast<Credits>(below(3'000'000)), held);
          ASSERT_EQ(market.Total(), before) << "a tick only moves credits; seed " << seed;
        }
      }
      Credits sum = 0;
      for (AccountId id : open) {
        ASSERT_GE(market.balance(id), 0);
        sum += market.balance(id);
      }
      ASSERT_EQ(sum, market.endowed() - market.spent() - market.closed()) << "seed " << seed;
      ASSERT_TRUE(market.Holds());
    }
  }
}

TEST(Market, NothingToDivideByIsNoTrouble) {
  Market market;
  market.Open(kAnna, 0, nullptr);
  market.Open(kBert, 0, nullptr);
  const Market::Holding held[] = {{kAnna, kPage}, {kBert, kPage}, {kCleo, kPage}};
  market.Tick(kCredit, held);
  EXPECT_EQ(market.Total(), 0);
  EXPECT_TRUE(market.defaulted(kAnna));
  EXPECT_TRUE(market.Holds());
}

}  // namespace
}  // namespace pie
