// Wallet: a process's accounts, one for each model that it uses. An account is opened at the first
// use of its model and closed with the wallet. One thread at a time may use a wallet.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "sched/scheduler.h"

namespace pie::host {

class Wallet {
 public:
  // The numbers of the process and of its user.
  Wallet(uint64_t owner, uint64_t user) : owner_(owner), user_(user) {}
  ~Wallet() {
    for (const auto& [scheduler, account] : accounts_) scheduler->CloseAccount(account.id);
  }
  Wallet(const Wallet&) = delete;
  Wallet& operator=(const Wallet&) = delete;

  // Makes the account of this model pay for that sequence from now on.
  void Own(Scheduler& scheduler, SequenceId sequence) {
    scheduler.Own(sequence, Find(scheduler).id);
  }
  double balance(Scheduler& scheduler) { return InCredits(Find(scheduler).view->balance); }
  double dividend(Scheduler& scheduler) { return InCredits(Find(scheduler).view->dividend); }

 private:
  struct Account {
    AccountId id;
    std::shared_ptr<AccountView> view;
  };
  static double InCredits(const std::atomic<Credits>& amount) {
    return static_cast<double>(amount.load(std::memory_order_relaxed)) / kCredit;
  }
  Account& Find(Scheduler& scheduler) {
    const auto [place, fresh] = accounts_.try_emplace(&scheduler);
    Account& account = place->second;
    if (fresh) {
      account.view = std::make_shared<AccountView>();
      account.view->owner = owner_;
      account.view->user = user_;
      account.id = scheduler.OpenAccount(account.view);
    }
    return account;
  }

  const uint64_t owner_;
  const uint64_t user_;
  std::map<Scheduler*, Account> accounts_;
};

}  // namespace pie::host
