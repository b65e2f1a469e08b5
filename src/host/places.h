// Places: which inferlets run, and which wait for a place. Any thread may use it.
//
// When a place is free, the user who has the fewest gets it, and of the launches of one user the
// oldest. No user may have more places than their share of what is free (ByteBudget), so the
// inferlets of one user, which may run for hours, leave places for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace pie::host {

class Places {
 public:
  using Start = std::move_only_function<void()>;
  Places(size_t limit, uint32_t share_percent) : limit_(limit), share_percent_(share_percent) {}

  // Takes a place for the user if one is free for them. `Leave` gives it back.
  bool TryEnter(std::string_view user);
  // Calls `start` once the user has another place: on this thread now, or on the thread of a
  // `Leave`. `id` is not that of another one that waits.
  void Enter(uint64_t id, std::string_view user, Start start);
  // Takes one out of the queue. False if it does not wait.
  bool Abandon(uint64_t id);
  void Leave(std::string_view user);

  size_t taken() const;
  size_t waiting() const;

 private:
  struct Waiting {
    uint64_t id;
    Start start;
  };
  struct Line {
    size_t held = 0;
    std::map<uint64_t, Waiting> waiting;  // by number: the older one has the smaller
  };
  using Lines = std::map<std::string, Line, std::less<>>;
  // What decides who is next: places held, number of the first launch.
  using Rank = std::tuple<size_t, uint64_t, Lines::iterator>;
  struct Less {
    bool operator()(const Rank& a, const Rank& b) const {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    }
  };

  // All with the mutex held.
  bool MayEnter(const Line& line) const;
  Lines::iterator LineOf(std::string_view user);
  void Unrank(Lines::iterator line);
  void Rerank(Lines::iterator line);  // or forgets an empty one
  std::deque<Start> Admit();

  const size_t limit_;
  const uint32_t share_percent_;
  mutable std::mutex mutex_;
  size_t taken_ = 0;
  uint64_t next_number_ = 0;
  Lines lines_;
  std::set<Rank, Less> ranks_;  // of the lines in which a launch waits
  std::unordered_map<uint64_t, std::pair<Lines::iterator, uint64_t>> waits_;  // id → line, number
};

}  // namespace pie::host
