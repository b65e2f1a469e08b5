#include "sched/market.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace pie {
namespace {

using Wide = __int128;

constexpr double kHighestBid = 1e9;  // credits; higher bids count as this one
constexpr Credits kMostDue = INT64_MAX;

// Is this more than 5/4 of the share?
bool IsOver(uint64_t parts, uint64_t share) {
  return parts / 5 * 4 > share;
}

// part / whole of `amount`, rounded down.
Credits Share(Credits amount, uint64_t part, uint64_t whole) {
  return static_cast<Credits>(Wide{amount} * part / whole);
}

}  // namespace

Credits CreditsOf(double credits) {
  if (!(credits > 0)) return 0;
  return static_cast<Credits>(std::llround(std::min(credits, kHighestBid) * kCredit));
}

Credits DefaultBid(const BidTerms& terms) {
  const double steps = std::max(terms.steps, 1.0);
  const double income = static_cast<double>(terms.balance) / steps +
                        static_cast<double>(terms.dividend);  // a step, in millionths
  const double growth = steps * (1 + terms.variation) / (2.0 * std::max(terms.page_tokens, 1U));
  return CreditsOf(income / kCredit / (terms.pages + growth));
}

Credits BidOf(const BidPlan& plan, const BidProgress& progress, BidTerms terms) {
  if (plan.idle) return 0;
  if (progress.pass_bid) return CreditsOf(*progress.pass_bid);
  if (plan.fixed) return CreditsOf(*plan.fixed);
  terms.variation = 1;
  if (plan.expected) {
    const uint64_t run = progress.steps - progress.steps_at_expectation;
    terms.steps = plan.expected->steps - static_cast<double>(run);
    terms.variation = plan.expected->variation;
  } else if (progress.chain_steps) {
    terms.steps = *progress.chain_steps;
  } else {  // expect as many steps as have run, at least 64
    terms.steps = std::max(64.0, static_cast<double>(progress.steps));
  }
  return DefaultBid(terms);
}

Credits ClearingPrice(std::vector<Demand> demands, uint64_t capacity) {
  std::ranges::sort(demands, std::greater(), &Demand::bid);
  for (const Demand& demand : demands) {
    if (demand.pages > capacity) return demand.bid;
    capacity -= demand.pages;
  }
  return 0;
}

bool EvictedBefore(const Standing& a, const Standing& b) {
  return std::tuple(!a.idle, !a.over_share, a.overdue, !a.defaulted, a.bid, b.age) <
         std::tuple(!b.idle, !b.over_share, b.overdue, !b.defaulted, b.bid, a.age);
}

bool RestoredBefore(const Standing& a, const Standing& b) {
  return std::tuple(a.over_share, b.overdue, b.bid, a.age) <
         std::tuple(b.over_share, a.overdue, a.bid, b.age);
}

void Market::Account::Show() const {
  if (!view) return;
  view->balance.store(balance, std::memory_order_relaxed);
  view->dividend.store(dividend, std::memory_order_relaxed);
}

void Market::Open(AccountId id, uint32_t endowment_pages, std::shared_ptr<AccountView> view) {
  const auto [place, fresh] = accounts_.try_emplace(id.value);
  if (!fresh) return;
  Account& account = place->second;
  account.endowment_pages = endowment_pages;
  account.balance = Credits{endowment_pages} * kCredit;
  account.view = std::move(view);
  account.Show();
  endowed_ += account.balance;
  endowment_pages_ += endowment_pages;
}

void Market::Close(AccountId id) {
  const auto found = accounts_.find(id.value);
  if (found == accounts_.end()) return;
  closed_ += found->second.balance;
  endowment_pages_ -= found->second.endowment_pages;
  accounts_.erase(found);
}

void Market::ChargePages(AccountId id, uint64_t pages) {
  const auto found = accounts_.find(id.value);
  if (found == accounts_.end() || pages == 0) return;
  Account& account = found->second;
  const Credits cost = static_cast<Credits>(pages) * kPagePrice;
  const Credits paid = std::min(cost, account.balance);
  account.unpaid |= paid < cost;
  account.balance -= paid;
  spent_ += paid;
  account.Show();
}

void Market::ShareOut(std::span<const Holding> holdings) {
  parts_of_users_.clear();
  uint64_t all = 0;
  for (const Holding& holding : holdings) {
    const Account* const account = Find(holding.account);
    if (account == nullptr || !account->view) continue;
    parts_of_users_[account->view->user] += holding.page_parts;
    all += holding.page_parts;
  }
  equal_parts_ = parts_of_users_.size() < 2 ? 0 : all / parts_of_users_.size();
  const auto is_over = [this](const auto& entry) { return IsOver(entry.second, equal_parts_); };
  any_over_share_ = has_shares() && std::ranges::any_of(parts_of_users_, is_over);
}

bool Market::over_share(AccountId id) const {
  if (!has_shares()) return false;
  const auto found = parts_of_users_.find(user(id));
  return found != parts_of_users_.end() && IsOver(found->second, equal_parts_);
}

bool Market::WithinShare(AccountId id, uint64_t pages) const {
  if (!has_shares()) return false;
  const auto found = parts_of_users_.find(user(id));
  const uint64_t held = found == parts_of_users_.end() ? 0 : found->second;
  return held + pages * kCredit <= equal_parts_;
}

void Market::Grant(AccountId id, uint64_t pages) {
  if (has_shares()) parts_of_users_[user(id)] += pages * kCredit;
}

void Market::Tick(Credits price, std::span<const Holding> holdings) {
  price_ = price;
  ShareOut(holdings);
  for (const Holding& holding : holdings) {
    const auto found = accounts_.find(holding.account.value);
    if (found == accounts_.end()) continue;
    Credits& due = found->second.due;
    due = static_cast<Credits>(
        std::min(due + Wide{price} * holding.page_parts / kCredit, Wide{kMostDue}));
  }
  Credits revenue = 0;
  for (auto& [id, account] : accounts_) {
    const Credits paid = std::min(account.due, account.balance);
    account.defaulted = paid < account.due || (account.unpaid && account.balance == 0);
    account.unpaid = false;
    account.due = 0;
    account.balance -= paid;
    revenue += paid;
  }
  Credits rest = revenue;
  for (auto& [id, account] : accounts_) {
    account.dividend =
        endowment_pages_ == 0 ? 0 : Share(revenue, account.endowment_pages, endowment_pages_);
    rest -= account.dividend;
  }
  // Hands out the remainder of the divisions, at most one millionth to each account. If no account
  // has an endowment, the first account gets all of the revenue.
  for (auto& [id, account] : accounts_) {
    const Credits extra = endowment_pages_ == 0 ? rest : std::min<Credits>(rest, 1);
    account.dividend += extra;
    rest -= extra;
    account.balance += account.dividend;
    account.Show();
  }
}

const Market::Account* Market::Find(AccountId id) const {
  const auto found = accounts_.find(id.value);
  return found == accounts_.end() ? nullptr : &found->second;
}

Credits Market::balance(AccountId id) const {
  const Account* account = Find(id);
  return account == nullptr ? 0 : account->balance;
}

Credits Market::dividend(AccountId id) const {
  const Account* account = Find(id);
  return account == nullptr ? 0 : account->dividend;
}

uint64_t Market::user(AccountId id) const {
  const Account* account = Find(id);
  return account != nullptr && account->view ? account->view->user : 0;
}

uint64_t Market::owner(AccountId id) const {
  const Account* account = Find(id);
  return account != nullptr && account->view ? account->view->owner : 0;
}

bool Market::defaulted(AccountId id) const {
  const Account* account = Find(id);
  return account != nullptr && account->defaulted;
}

Credits Market::Total() const {
  Credits total = 0;
  for (const auto& [id, account] : accounts_) total += account.balance;
  return total;
}

}  // namespace pie
