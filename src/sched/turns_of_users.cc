#include "sched/turns_of_users.h"

#include <algorithm>
#include <tuple>

namespace pie {
namespace {

struct Line {
  uint64_t served = 0;
  std::vector<uint32_t> passes;
};

}  // namespace

bool TurnsOfUsers::Order(std::span<const uint64_t> users, std::vector<uint32_t>& order) {
  order.clear();
  if (std::ranges::all_of(users, [&](uint64_t user) { return user == users.front(); }))
    return false;
  std::unordered_map<uint64_t, size_t> places;
  std::vector<Line> lines;
  for (uint32_t i = 0; i < users.size(); ++i) {
    const auto [place, is_new] = places.try_emplace(users[i], lines.size());
    if (is_new) lines.emplace_back();
    lines[place->second].passes.push_back(i);
  }
  if (served_.size() > kMostUsers) {
    served_.clear();
    least_served_ = 0;
  }
  for (const auto& [user, place] : places) {
    uint64_t& served = served_[user];
    served = std::max(served, least_served_);
    lines[place].served = served;
  }
  std::ranges::sort(lines, {},
                    [](const Line& line) { return std::tuple(line.served, line.passes.front()); });
  least_served_ = lines.front().served;
  for (size_t turn = 0; !lines.empty(); ++turn) {
    std::erase_if(lines, [turn](const Line& line) { return line.passes.size() <= turn; });
    for (const Line& line : lines) order.push_back(line.passes[turn]);
  }
  return true;
}

}  // namespace pie
