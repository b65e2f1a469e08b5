// TurnsOfUsers: orders the waiting passes when a batch has no room for all of them. The user who
// was served least is first, and users take turns, so that a user who queues thousands of passes
// does not hold up one who queues few. A user's own passes keep their order. Costs O(passes) for
// each batch that is too small, and nothing for others. Belongs to the step thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace pie {

class TurnsOfUsers {
 public:
  // `users` has the user of each pass that waits, the oldest pass first. Puts the indices of the
  // passes into `order`. Returns false if there is only one user: then there is no order to change.
  bool Order(std::span<const uint64_t> users, std::vector<uint32_t>& order);
  // Counts tokens of the user that were put into a batch that was too small for all passes.
  void Add(uint64_t user, uint64_t tokens) { served_[user] += tokens; }

 private:
  static constexpr size_t kMostUsers = 4'096;  // the most entries of `served_`

  std::unordered_map<uint64_t, uint64_t> served_;  // tokens
  // The smallest number of tokens that a waiting user had been served when a batch was last too
  // small. A user who returns counts as served at least this much, so that time without passes
  // earns no credit.
  uint64_t least_served_ = 0;
};

}  // namespace pie
