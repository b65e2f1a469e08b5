// Places: decides which inferlets run and which wait for a place. Any thread may use it.
//
// A free place goes to the user who holds the fewest places, and to the oldest launch of that user.
// No user may hold more places than their share of what is free (ByteBudget), so the inferlets of
// one user, which may run for hours, leave places for others.
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

#include "host/byte_budget.h"

namespace pie::host {

class Places {
 public:
  using Start = std::move_only_function<void()>;
  Places(size_t limit, ByteBudget::Part part) : limit_(limit), part_(part) {}

  // Takes a place for the user if one is free for them. `Leave` gives it back.
  bool TryEnter(std::string_view user);
  // Calls `start` when the user gets another place: now on this thread, or later on a thread that
  // calls `Leave`. No other waiting launch may have the same `id`.
  void Enter(uint64_t id, std::string_view user, Start start);
  // Takes a launch out of the queue. Returns false if it does not wait.
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
    std::map<uint64_t, Waiting> waiting;  // by number, which grows with each launch
  };
  using Lines = std::map<std::string, Line, std::less<>>;
  // The order of the lines: by places held, then by the number of the oldest waiting launch.
  using Rank = std::tuple<size_t, uint64_t, Lines::iterator>;
  struct Less {
    bool operator()(const Rank& a, const Rank& b) const {
      return std::tie(std::get<0>(a), std::get<1>(a)) < std::tie(std::get<0>(b), std::get<1>(b));
    }
  };

  // These functions are called with the mutex held.
  bool MayEnter(const Line& line) const;
  Lines::iterator LineOf(std::string_view user);
  void Unrank(Lines::iterator line);
  void Rerank(Lines::iterator line);  // removes a line that has no places and no launches
  std::deque<Start> Admit();

  const size_t limit_;
  const ByteBudget::Part part_;
  mutable std::mutex mutex_;
  size_t taken_ = 0;
  uint64_t next_number_ = 0;
  Lines lines_;
  std::set<Rank, Less> ranks_;  // the lines in which a launch waits
  std::unordered_map<uint64_t, std::pair<Lines::iterator, uint64_t>> waits_;  // id → line, number
};

}  // namespace pie::host
