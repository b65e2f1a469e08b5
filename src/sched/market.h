// Market: credits, rent and dividends for KV pages. Data and arithmetic only: no clock, no pages,
// no threads of its own. Owner: the step thread; others read an account through its AccountView.
//
// Every account starts with a credit for each page of its endowment. A new page costs one credit,
// which is spent for good. While memory is short, every tick has an auction: demands are served by
// bid until memory is full, and the highest bid that is left out is the price. Every account pays
// it for each page that it holds. The revenue goes back to the accounts at once, in proportion to
// their endowments. So at every moment, exactly:
//
//   sum of balances = credits endowed - credits spent on pages - credits of closed accounts
//
// All amounts are whole millionths of a credit, and remainders of divisions are given out too. No
// balance falls below zero: an account that cannot pay its rent pays what it has, and has defaulted
// until the next tick at which it can pay.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/ids.h"

namespace pie {

using Credits = int64_t;  // millionths
inline constexpr Credits kCredit = 1'000'000;
// The price of a new page.
inline constexpr Credits kPagePrice = kCredit;

// A guest's bid in millionths: 0 if it is negative or not a number, and limited from above.
Credits CreditsOf(double credits);

// The default bid of a context for a page and a tick. It spreads the account's balance over the
// steps that are still expected, and over the pages that the context holds and will hold.
struct BidTerms {
  Credits balance = 0;
  Credits dividend = 0;
  uint32_t pages = 0;  // held
  uint32_t page_tokens = 1;
  double steps = 64;     // expected, at least 1
  double variation = 1;  // squared coefficient of variation of the steps; 0 if they are certain
};
Credits DefaultBid(const BidTerms& terms);

// How a context bids, as its guest has said.
struct BidPlan {
  // The number of passes with samplers or probes that the context will still run, counted from the
  // call that states it.
  struct Expectation {
    double steps = 0;
    double variation = 0;  // squared coefficient of variation of `steps`; 0 = certain
  };
  bool idle = false;                    // bids 0, whatever the other fields hold
  std::optional<double> fixed;          // credits, in place of the default bid
  std::optional<Expectation> expected;  // for the default bid; nullopt: unknown
  uint64_t number = 0;                  // changes with every new expectation
};
// The progress of a context.
struct BidProgress {
  uint64_t steps = 0;                   // passes that ended and were read
  uint64_t steps_at_expectation = 0;    // `steps` when the expectation was stated
  std::optional<uint32_t> chain_steps;  // the passes that its chain may still run
  std::optional<double> pass_bid;       // of the pass that has begun
};
// The bid of a context. `terms` needs no steps and no variation: they follow from the rest.
Credits BidOf(const BidPlan& plan, const BidProgress& progress, BidTerms terms);

// A number of pages that a context holds or wants, and its bid for each of them.
struct Demand {
  Credits bid = 0;
  uint32_t pages = 0;
};
// Returns the highest bid that gets no page when `capacity` pages go to the highest bids; 0 if
// every bid gets its pages.
Credits ClearingPrice(std::vector<Demand> demands, uint64_t capacity);

// How one context stands against another when memory is short.
struct Standing {
  bool idle = false;        // asks for nothing
  bool over_share = false;  // its user holds more than their share (Market::over_share)
  bool overdue = false;     // has waited too long already
  bool defaulted = false;   // its account could not pay
  Credits bid = 0;
  uint64_t age = 0;  // its number: the youngest has the highest
};
// Is `a` evicted before `b`? Idle ones are first, then those of users who hold more than their
// share, then defaulted ones, then the lowest bid, then the youngest; overdue ones are last.
bool EvictedBefore(const Standing& a, const Standing& b);
// Is `a` restored before `b`? Those of users who hold more than their share are last. Of the
// others, overdue ones are first, then the highest bid, then the oldest.
bool RestoredBefore(const Standing& a, const Standing& b);

// An account as other threads read it. It may trail by a step.
struct AccountView {
  // Numbers of the account's opener and of their user, set before the account is opened.
  uint64_t owner = 0;
  uint64_t user = 0;
  std::atomic<Credits> balance = 0;
  std::atomic<Credits> dividend = 0;  // of the last tick
};

class Market {
 public:
  // `view` may be null.
  void Open(AccountId id, uint32_t endowment_pages, std::shared_ptr<AccountView> view);
  void Close(AccountId id);  // its balance is gone
  // The account pays for new pages. Unknown accounts pay nothing.
  void ChargePages(AccountId id, uint64_t pages);

  // The pages that an account holds, in millionths. A shared page is split among its sharers.
  struct Holding {
    AccountId account;
    uint64_t page_parts = 0;
  };
  // One tick: every account pays `price` for each page and gets its share of the revenue.
  void Tick(Credits price, std::span<const Holding> holdings);

  Credits price() const { return price_; }  // of the last tick
  Credits balance(AccountId id) const;
  Credits dividend(AccountId id) const;
  uint64_t owner(AccountId id) const;  // AccountView::owner; 0: there is no such account
  uint64_t user(AccountId id) const;   // AccountView::user; 0: there is no such account
  bool defaulted(AccountId id) const;

  // Users have equal shares of the pages that all of them held at the last tick. A user who held
  // none but wanted some has a share too. Without a second such user there are no shares.
  bool has_shares() const { return equal_parts_ > 0; }
  // Whether the account's user, or any user, holds more than 5/4 of their share. Up to that, bids
  // decide.
  bool over_share(AccountId id) const;
  bool any_over_share() const { return any_over_share_; }
  // Whether the account's user would stay within their share with this number of additional pages.
  bool WithinShare(AccountId id, uint64_t pages) const;
  // The account's user gets these pages. They count in WithinShare until the next tick.
  void Grant(AccountId id, uint64_t pages);

  // The law above.
  Credits endowed() const { return endowed_; }
  Credits spent() const { return spent_; }
  Credits closed() const { return closed_; }
  Credits Total() const;  // of balances
  bool Holds() const { return Total() == endowed_ - spent_ - closed_; }

 private:
  struct Account {
    uint32_t endowment_pages = 0;
    Credits balance = 0;
    Credits dividend = 0;
    Credits due = 0;  // rent of the tick under way
    bool defaulted = false;
    bool unpaid = false;  // a page since the last tick
    std::shared_ptr<AccountView> view;

    void Show() const;
  };
  const Account* Find(AccountId id) const;
  void ShareOut(std::span<const Holding> holdings);

  std::map<uint64_t, Account> accounts_;  // in order: what a division leaves over goes by it
  uint64_t endowment_pages_ = 0;          // of all of them
  std::unordered_map<uint64_t, uint64_t> parts_of_users_;  // held at the last tick, by user
  uint64_t equal_parts_ = 0;                               // the share of each; 0: no shares
  bool any_over_share_ = false;
  Credits price_ = 0;
  Credits endowed_ = 0;
  Credits spent_ = 0;
  Credits closed_ = 0;
};

}  // namespace pie
