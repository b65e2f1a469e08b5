// Market: credits, rent and dividends for KV pages. Data and arithmetic only: no clock, no pages,
// no threads of its own. Owner: the step thread; others read an account through its AccountView.
//
// Every account starts with a credit for each page of its endowment. A page that is made costs one
// credit, which is gone for good. While memory is short, every tick has an auction: what is wanted
// is served by bid until memory is full, and the highest bid that is left out is the price that
// everybody who holds pages pays for each of them. What comes in goes back to the accounts at
// once, in proportion to their endowments. So at every moment, exactly:
//
//   sum of balances = credits endowed - credits spent on pages - credits of closed accounts
//
// All amounts are whole millionths of a credit, and what a division leaves over is given out too.
// Nobody's balance falls below zero: who cannot pay pays what there is, and has defaulted until
// the next tick at which it can.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"

namespace pie {

using Credits = int64_t;  // millionths
inline constexpr Credits kCredit = 1'000'000;
// What a new page costs.
inline constexpr Credits kPagePrice = kCredit;

// A bid, as guests give it, in whole numbers: 0 for what is no number, and an upper end.
Credits CreditsOf(double credits);

// What a context bids for a page and a tick when nobody says otherwise: it spreads what it has over
// the steps that it expects still to take, and over the pages that it holds and will hold.
struct BidTerms {
  Credits balance = 0;
  Credits dividend = 0;
  uint32_t pages = 0;  // held
  uint32_t page_tokens = 1;
  double steps = 64;     // expected, at least 1
  double variation = 1;  // of them, squared; 0 = certain
};
Credits DefaultBid(const BidTerms& terms);

// How a context bids, as its guest has said.
struct BidPlan {
  // The passes that read something which the context will still run, counted from the statement.
  struct Expectation {
    double steps = 0;
    double variation = 0;  // squared coefficient of variation of `steps`; 0 = certain
  };
  bool idle = false;                    // bids 0, whatever else is said
  std::optional<double> fixed;          // credits, in place of the default bid
  std::optional<Expectation> expected;  // for the default bid; nullopt: unknown
  uint64_t number = 0;                  // of the expectation: another number is another statement
};
// How far a context has come.
struct BidProgress {
  uint64_t steps = 0;                   // passes that ended and were read
  uint64_t steps_at_expectation = 0;    // `steps` when the expectation was stated
  std::optional<uint32_t> chain_steps;  // the passes that its chain may still run
  std::optional<double> pass_bid;       // of the pass that has begun
};
// The bid of a context. `terms` needs no steps and no variation: they follow from the rest.
Credits BidOf(const BidPlan& plan, const BidProgress& progress, BidTerms terms);

// What somebody wants, and bids for each page of it.
struct Demand {
  Credits bid = 0;
  uint32_t pages = 0;
};
// The highest bid that is left out when `capacity` pages go to the highest bids. 0: all have room.
Credits ClearingPrice(std::vector<Demand> demands, uint64_t capacity);

// How one context stands against another when memory is short.
struct Standing {
  bool idle = false;       // asks for nothing
  bool overdue = false;    // has waited too long already
  bool defaulted = false;  // its account could not pay
  Credits bid = 0;
  uint64_t age = 0;  // its number: the youngest has the highest
};
// Is `a` to go before `b`? Idle first, then those that defaulted, the lowest bid, the youngest;
// last those that are overdue.
bool EvictedBefore(const Standing& a, const Standing& b);
// Is `a` to come back before `b`? Those that are overdue, then the highest bid, then the oldest.
bool RestoredBefore(const Standing& a, const Standing& b);

// An account, for other threads to read. May trail by a step.
struct AccountView {
  std::atomic<Credits> balance = 0;
  std::atomic<Credits> dividend = 0;  // of the last tick
};

class Market {
 public:
  // `view` may be null.
  void Open(AccountId id, uint32_t endowment_pages, std::shared_ptr<AccountView> view);
  void Close(AccountId id);  // what it has left goes with it
  // It made so many pages. Unknown accounts pay nothing.
  void ChargePages(AccountId id, uint64_t pages);

  // What an account holds: millionths of a page, a shared one being split among its sharers.
  struct Holding {
    AccountId account;
    uint64_t page_parts = 0;
  };
  // One tick: everybody pays `price` a page and gets a share of what all have paid.
  void Tick(Credits price, std::span<const Holding> holdings);

  Credits price() const { return price_; }  // of the last tick
  Credits balance(AccountId id) const;
  Credits dividend(AccountId id) const;
  bool defaulted(AccountId id) const;
  size_t accounts() const { return accounts_.size(); }

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

  std::map<uint64_t, Account> accounts_;  // in order: what a division leaves over goes by it
  uint64_t endowment_pages_ = 0;          // of all of them
  Credits price_ = 0;
  Credits endowed_ = 0;
  Credits spent_ = 0;
  Credits closed_ = 0;
};

}  // namespace pie
