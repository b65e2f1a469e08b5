// ClientTurns: the order in which the IO thread handles what clients have sent, and what is sent to
// them. Users take turns, so one who has thousands of connections does not keep the thread from the
// others. Between two pieces of work the thread looks after its other sockets.
//
// IO thread. Work that throws does not hold up what follows.
#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace pie::server {

class ClientTurns {
 public:
  using Work = std::function<void()>;
  // Runs a function on the IO thread, later.
  using Post = std::function<void(std::function<void()>)>;

  explicit ClientTurns(Post post) : post_(std::move(post)) {}

  // Runs the work when it is the user's turn, after the user's earlier work.
  void Enter(std::string_view user, Work work) {
    auto line = lines_.find(user);
    if (line == lines_.end()) {
      line = lines_.emplace(std::string(user), std::deque<Work>()).first;
      order_.push_back(line);
    }
    line->second.push_back(std::move(work));
    if (!std::exchange(posted_, true)) post_([this] { Next(); });
  }

  // Discards what waits.
  void Clear() {
    order_.clear();
    lines_.clear();
  }

 private:
  using Lines = std::map<std::string, std::deque<Work>, std::less<>>;

  void Next() {
    posted_ = false;
    if (order_.empty()) return;
    const Lines::iterator line = order_.front();
    order_.pop_front();
    const Work work = std::move(line->second.front());
    line->second.pop_front();
    if (line->second.empty()) {
      lines_.erase(line);
    } else {
      order_.push_back(line);
    }
    if (!order_.empty() && !std::exchange(posted_, true)) post_([this] { Next(); });
    work();
  }

  const Post post_;
  Lines lines_;                       // of users for whom work waits
  std::list<Lines::iterator> order_;  // the next one first
  bool posted_ = false;
};

}  // namespace pie::server
