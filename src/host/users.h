// Users: what the inferlets of each user hold of the engine. Any thread may use it.
//
// All users share one limit for each kind of thing; of what is left, a user has a share
// (`Limits::user_share_percent`, see ByteBudget). So a user who takes all they can leaves room for
// others.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "host/byte_budget.h"
#include "host/limits.h"
#include "host/per_user.h"

namespace pie::host {

// A limit for all users, of which each has a share. Any thread may use it.
class SharedBudget {
 public:
  SharedBudget(size_t limit, uint32_t share_percent)
      : whole_(std::make_shared<ByteBudget>(limit)),
        parts_([whole = whole_, share_percent](std::string_view) {
          return std::make_shared<ByteBudget>(whole->limit(), whole,
                                              ByteBudget::Part{.share_percent = share_percent});
        }) {}
  std::shared_ptr<ByteBudget> Of(std::string_view user) { return parts_.Of(user); }
  const ByteBudget& whole() const { return *whole_; }

 private:
  const std::shared_ptr<ByteBudget> whole_;
  PerUser<ByteBudget> parts_;
};

// What all users hold together.
struct Totals {
  explicit Totals(const Limits& limits);
  const std::shared_ptr<ByteBudget> processes, inputs, contexts, topics, messages, memory, linear,
      opened;
};

struct User {
  User(std::string_view the_name, const Totals& totals, const Limits& limits);

  const std::string name;
  const uint64_t number;  // unlike that of any other user who is known at the same time
  ByteBudget processes;   // that run or wait for a place
  ByteBudget inputs;      // bytes of their inputs
  ByteBudget contexts;    // that their handles name
  ByteBudget topics;      // of messages
  ByteBudget messages;    // unread bytes in topics and inboxes
  ByteBudget memory;      // bytes of the engine's own memory that they cause
  ByteBudget linear;      // bytes of their linear memories
  ByteBudget opened;      // contexts that were opened from files
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
  explicit Users(const Limits& limits)
      : totals_(limits), users_([this, &limits](std::string_view name) {
          return std::make_shared<User>(name, totals_, limits);
        }) {}

  std::shared_ptr<User> Of(std::string_view name) { return users_.Of(name); }
  const Totals& totals() const { return totals_; }

 private:
  const Totals totals_;
  PerUser<User> users_;
};

}  // namespace pie::host
