// Users: what the inferlets of each user hold of the engine. Any thread may use it.
//
// All users share one limit for each kind of thing. A user may take a share of what is left
// (`Limits::user_share_percent`, see ByteBudget), so a user who takes all they can leaves room for
// others.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "host/byte_budget.h"
#include "host/lent_time.h"
#include "host/limits.h"
#include "host/per_user.h"

namespace pie::host {

// A limit for all users, of which each has a share. Any thread may use it.
class SharedBudget {
 public:
  SharedBudget(size_t limit, ByteBudget::Part part)
      : whole_(std::make_shared<ByteBudget>(limit)),
        parts_([whole = whole_, part](std::string_view) {
          return std::make_shared<ByteBudget>(whole->limit(), whole, part);
        }) {}
  std::shared_ptr<ByteBudget> Of(std::string_view user) { return parts_.Of(user); }
  const ByteBudget& whole() const { return *whole_; }

 private:
  const std::shared_ptr<ByteBudget> whole_;
  PerUser<ByteBudget> parts_;
};

// The budgets of all users together.
struct Totals {
  explicit Totals(const Limits& limits);
  const std::shared_ptr<ByteBudget> processes, inputs, contexts, topics, messages, memory, linear,
      opened, detached, passes, open_files;
};

struct User {
  User(std::string_view the_name, const Totals& totals, ByteBudget::Part part, LentTimes& lents);

  const std::string name;
  const uint64_t number;  // the user's own; it never changes
  ByteBudget processes;   // inferlets that run or wait for a place
  ByteBudget inputs;      // bytes of their inputs
  ByteBudget contexts;    // contexts that their handles name
  ByteBudget topics;      // topics of messages
  ByteBudget messages;    // unread bytes in topics and inboxes
  ByteBudget memory;      // bytes of the engine's own memory that they cause
  ByteBudget linear;      // bytes of their linear memories
  ByteBudget opened;      // contexts that were opened from files
  ByteBudget detached;    // inferlets that do not end with the one that launched them
  ByteBudget passes;      // passes and chains that wait for the device or run
  ByteBudget open_files;  // files, streams and sockets that they have open
  // How long their grammars may hold up others.
  const std::shared_ptr<LentTime> lent;
};

// A charge that keeps its user alive.
inline std::shared_ptr<ByteBudget> BudgetOf(const std::shared_ptr<User>& user,
                                            ByteBudget User::* which) {
  return {user, &((*user).*which)};
}
inline Charge ChargeTo(const std::shared_ptr<User>& user, ByteBudget User::* which) {
  return Charge(BudgetOf(user, which));
}

class Users {
 public:
  // Unless `several`, shares do not apply until a second user is seen.
  explicit Users(const Limits& limits, bool several = true)
      : percent_(limits.user_share_percent),
        several_(several),
        totals_(limits),
        users_([this](std::string_view name) {
          return std::make_shared<User>(name, totals_, share(), lents_);
        }) {}

  std::shared_ptr<User> Of(std::string_view name) {
    if (!several_.load(std::memory_order_relaxed)) Note(name);
    return users_.Of(name);
  }
  const Totals& totals() const { return totals_; }
  // The share of each user in the common limits. Lives as long as this object.
  ByteBudget::Part share() const { return {.share_percent = percent_, .applies = &several_}; }

 private:
  void Note(std::string_view name);

  const uint32_t percent_;
  std::atomic<bool> several_;
  std::mutex mutex_;
  std::string first_;  // the first user
  const Totals totals_;
  LentTimes lents_;
  PerUser<User> users_;
};

}  // namespace pie::host
